// SPDX-License-Identifier: Apache-2.0
//! The parts of protobuf's encoding that the plugin needs.

/// One field of a message.
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Return the fields of a message; None if it is malformed.
pub fn fields(mut data: &[u8]) -> Option<Vec<(u64, Value<'_>)>> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let tag = varint(&mut data)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut data)?),
            1 => Value::Bytes(take(&mut data, 8)?),
            2 => {
                let length = varint(&mut data)?;
                Value::Bytes(take(&mut data, usize::try_from(length).ok()?)?)
            }
            5 => Value::Bytes(take(&mut data, 4)?),
            _ => return None,
        };
        found.push((tag >> 3, value));
    }
    Some(found)
}

/// Return the last value of a string, bytes or message field; empty if there is none.
pub fn bytes(data: &[u8], number: u64) -> Option<&[u8]> {
    let mut found: &[u8] = &[];
    for field in fields(data)? {
        if let (one, Value::Bytes(value)) = field {
            if one == number {
                found = value;
            }
        }
    }
    Some(found)
}

/// Return the last value of a number field; 0 if there is none.
pub fn number(data: &[u8], number: u64) -> Option<u64> {
    let mut found = 0;
    for field in fields(data)? {
        if let (one, Value::Number(value)) = field {
            if one == number {
                found = value;
            }
        }
    }
    Some(found)
}

/// Append a string, bytes or message field.
pub fn put_bytes(message: &mut Vec<u8>, number: u64, value: &[u8]) {
    put_varint(message, number << 3 | 2);
    put_varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

/// Append a number field.
pub fn put_number(message: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(message, number << 3);
    put_varint(message, value);
}

fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(data, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(data: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    if count > data.len() {
        return None;
    }
    let (taken, rest) = data.split_at(count);
    *data = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_fields_are_read() {
        let mut message = Vec::new();
        put_number(&mut message, 1, 300);
        put_bytes(&mut message, 20, b"text");
        assert_eq!(number(&message, 1), Some(300));
        assert_eq!(bytes(&message, 20), Some(&b"text"[..]));
        assert_eq!(bytes(&message, 3), Some(&b""[..]));
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for message in [&b"\x08"[..], b"\x0a\x05abc", b"\x0b", &[0xff; 11]] {
            assert!(fields(message).is_none());
        }
    }
}
