//! A server that is none: it says what it was given.

use std::io::{Read, Write};

/// What is heard: one thing before each answer, and what comes behind the last.
pub fn heard(mut stream: impl Read + Write, says: &[Vec<u8>]) -> Vec<u8> {
    let mut heard = Vec::new();
    for answer in says {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return heard,
            Ok(read) => heard.extend_from_slice(&buffer[..read]),
        }
        stream.write_all(answer).expect("said");
    }
    let _ = stream.read_to_end(&mut heard);
    heard
}

pub fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes();
    bytes[3] = number;
    [&bytes[..], payload].concat()
}

/// A MySQL's first packet, with these capabilities.
pub fn greeting(capabilities: u32) -> Vec<u8> {
    let [low, high] = [capabilities as u16, (capabilities >> 16) as u16];
    let mut payload = b"\x0a8.0.0\0\x01\0\0\0abcdefgh\0".to_vec();
    payload.extend_from_slice(&low.to_le_bytes());
    payload.extend_from_slice(&[45, 2, 0]);
    payload.extend_from_slice(&high.to_le_bytes());
    payload.push(21);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"ijklmnopqrst\0caching_sha2_password\0");
    packet(0, &payload)
}

/// Protocol 4.1, authentication by plugins, no EOF packets.
pub const CAPABILITIES: u32 = 0x8200 | 1 | 1 << 19 | 1 << 24;
