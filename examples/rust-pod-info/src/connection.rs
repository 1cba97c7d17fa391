// SPDX-License-Identifier: Apache-2.0
//! ttRPC messages over the frames that carry both of NRI's connections on one socket.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

/// Number of the connection on which the runtime calls the plugin.
pub const PLUGIN: u32 = 1;
/// Number of the connection on which the plugin calls the runtime.
pub const RUNTIME: u32 = 2;

pub const REQUEST: u8 = 1;
pub const RESPONSE: u8 = 2;

const HEADER: usize = 10;
const FRAME_MAX: usize = (4 << 20) + HEADER;

pub struct Message {
    pub connection: u32,
    pub stream: u32,
    pub kind: u8,
    pub body: Vec<u8>,
}

pub struct Connection {
    socket: UnixStream,
    received: HashMap<u32, Vec<u8>>,
}

impl Connection {
    pub fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            received: HashMap::new(),
        }
    }

    /// Write one message: its header as one frame, and its body as another one.
    pub fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut data = frame(message.connection, HEADER);
        data.extend((message.body.len() as u32).to_be_bytes());
        data.extend(message.stream.to_be_bytes());
        data.extend([message.kind, 0]);
        if !message.body.is_empty() {
            data.extend(frame(message.connection, message.body.len()));
            data.extend(&message.body);
        }
        self.socket.write_all(&data)
    }

    /// Return the next message; None at the end of the connection.
    pub fn receive(&mut self) -> io::Result<Option<Message>> {
        loop {
            for (&connection, data) in &mut self.received {
                if let Some(message) = take_message(connection, data)? {
                    return Ok(Some(message));
                }
            }
            let mut header = [0; 8];
            match self.socket.read_exact(&mut header) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                result => result?,
            }
            let length = number(&header[4..]) as usize;
            if length > FRAME_MAX {
                return Err(malformed("frame"));
            }
            let mut data = vec![0; length];
            self.socket.read_exact(&mut data)?;
            self.received
                .entry(number(&header))
                .or_default()
                .extend(data);
        }
    }
}

pub fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed {what}"))
}

fn take_message(connection: u32, data: &mut Vec<u8>) -> io::Result<Option<Message>> {
    if data.len() < HEADER {
        return Ok(None);
    }
    let length = number(data) as usize;
    if length > FRAME_MAX {
        return Err(malformed("message"));
    }
    if data.len() < HEADER + length {
        return Ok(None);
    }
    let rest = data.split_off(HEADER + length);
    let whole = std::mem::replace(data, rest);
    Ok(Some(Message {
        connection,
        stream: number(&whole[4..]),
        kind: whole[8],
        body: whole[HEADER..].to_vec(),
    }))
}

fn frame(connection: u32, length: usize) -> Vec<u8> {
    let mut header = connection.to_be_bytes().to_vec();
    header.extend((length as u32).to_be_bytes());
    header
}

fn number(data: &[u8]) -> u32 {
    u32::from_be_bytes([data[0], data[1], data[2], data[3]])
}
