// SPDX-License-Identifier: Apache-2.0
//! pod-info is an NRI plugin that sets POD_NAME and POD_NAMESPACE in each new container.
//!
//! It needs no crate: `connection` and `protobuf` implement the parts of NRI that it uses.

mod connection;
mod protobuf;

use std::env;
use std::io;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use connection::{malformed, Connection, Message, PLUGIN, REQUEST, RESPONSE, RUNTIME};
use protobuf::{bytes, number, put_bytes, put_number};

/// Event mask: CreateContainer, the fourth event.
const CREATE_CONTAINER: u64 = 1 << 3;
/// Status code of ttRPC.
const UNIMPLEMENTED: u64 = 12;

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pod-info: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let mut runtime = Connection::new(connect()?);
    runtime.send(&registration())?;
    while let Some(message) = runtime.receive()? {
        match (message.connection, message.kind) {
            (PLUGIN, REQUEST) => {
                let body = respond(&message.body)?;
                runtime.send(&Message {
                    kind: RESPONSE,
                    body,
                    ..message
                })?;
            }
            (RUNTIME, RESPONSE) => {
                let status = bytes(&message.body, 1).ok_or_else(|| malformed("response"))?;
                if !status.is_empty() {
                    let text = bytes(status, 2).unwrap_or_default();
                    return Err(io::Error::other(String::from_utf8_lossy(text)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Return the socket that the runtime passed, or connect to its NRI socket.
fn connect() -> io::Result<UnixStream> {
    if let Some(number) = env::var("NRI_PLUGIN_SOCKET")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        let descriptor: RawFd = number;
        // SAFETY: the runtime passed this descriptor, and nothing else uses it.
        return Ok(unsafe { UnixStream::from_raw_fd(descriptor) });
    }
    let path = env::args()
        .nth(1)
        .unwrap_or_else(|| "/var/run/nri/nri.sock".into());
    UnixStream::connect(path)
}

fn registration() -> Message {
    let name = env::var("NRI_PLUGIN_NAME").unwrap_or_else(|_| "pod-info".into());
    let index = env::var("NRI_PLUGIN_IDX").unwrap_or_else(|_| "30".into());
    let mut plugin = Vec::new();
    put_bytes(&mut plugin, 1, name.as_bytes());
    put_bytes(&mut plugin, 2, index.as_bytes());
    let mut body = Vec::new();
    put_bytes(&mut body, 1, b"nri.pkg.api.v1alpha1.Runtime");
    put_bytes(&mut body, 2, b"RegisterPlugin");
    put_bytes(&mut body, 3, &plugin);
    Message {
        connection: RUNTIME,
        stream: 1,
        kind: REQUEST,
        body,
    }
}

/// Return the response to one request of the runtime.
fn respond(request: &[u8]) -> io::Result<Vec<u8>> {
    let method = bytes(request, 2).ok_or_else(|| malformed("request"))?;
    let payload = bytes(request, 3).ok_or_else(|| malformed("request"))?;
    let mut reply = Vec::new();
    match method {
        b"Configure" => put_number(&mut reply, 2, CREATE_CONTAINER),
        b"Synchronize" => {
            // A part of the state is answered with the same mark.
            let more = number(payload, 3).ok_or_else(|| malformed("Synchronize"))?;
            put_number(&mut reply, 2, more);
        }
        b"CreateContainer" => {
            let pod = bytes(payload, 1).ok_or_else(|| malformed("CreateContainer"))?;
            reply = create_container(pod).ok_or_else(|| malformed("pod"))?;
        }
        // StateChange: an event of a later NRI version.
        b"StateChange" | b"Shutdown" => {}
        _ => return Ok(unimplemented(method)),
    }
    let mut response = Vec::new();
    put_bytes(&mut response, 2, &reply);
    Ok(response)
}

/// Return a CreateContainerResponse that adds the pod's names to the environment.
fn create_container(pod: &[u8]) -> Option<Vec<u8>> {
    let mut adjustment = Vec::new();
    for (name, value) in [
        ("POD_NAME", bytes(pod, 2)?),
        ("POD_NAMESPACE", bytes(pod, 4)?),
    ] {
        let mut variable = Vec::new();
        put_bytes(&mut variable, 1, name.as_bytes());
        put_bytes(&mut variable, 2, value);
        put_bytes(&mut adjustment, 4, &variable);
    }
    let mut response = Vec::new();
    put_bytes(&mut response, 1, &adjustment);
    Some(response)
}

fn unimplemented(method: &[u8]) -> Vec<u8> {
    let text = format!("no method {}", String::from_utf8_lossy(method));
    let mut status = Vec::new();
    put_number(&mut status, 1, UNIMPLEMENTED);
    put_bytes(&mut status, 2, text.as_bytes());
    let mut response = Vec::new();
    put_bytes(&mut response, 1, &status);
    response
}
