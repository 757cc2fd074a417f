//! `WebSockets` byte by byte, for what a proper client cannot send.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;

use crate::support::{Members, TestServer, node::Device, within};

/// A connection after its upgrade.
#[derive(Debug)]
pub(super) struct Wire {
    stream: tokio::net::TcpStream,
    read: Vec<u8>,
}

/// The first byte of a whole text frame.
pub(super) const TEXT: u8 = 0x81;

impl Wire {
    pub(super) async fn open(server: &TestServer) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // Little is taken off the server unless the test reads.
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let address = server.address();
        let mut stream = within("a connection", socket.connect(address))
            .await
            .expect("a connection");
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut wire = Self {
            stream,
            read: Vec::new(),
        };
        let head = loop {
            if let Some(end) = wire.read.windows(4).position(|part| part == b"\r\n\r\n") {
                let rest = wire.read.split_off(end + 4);
                break String::from_utf8(std::mem::replace(&mut wire.read, rest)).expect("a head");
            }
            assert!(wire.more().await, "the server hung up before the upgrade");
        };
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(
            !head.to_ascii_lowercase().contains("sec-websocket-extensions"),
            "compression is never agreed on: {head}"
        );
        wire
    }

    /// Reads the challenge, and makes the parameters of a device's `connect` for it.
    pub(super) async fn connect_params(&mut self, device: &Device) -> Value {
        loop {
            if let Some((_opcode, payload, after)) = next_frame(&self.read) {
                let challenge: Value = serde_json::from_slice(payload).expect("a frame");
                let rest = after.to_vec();
                self.read = rest;
                let nonce = challenge["payload"].text("nonce");
                let ts = challenge["payload"]["ts"].as_i64().expect("a time");
                return device.connect_params(nonce, ts);
            }
            assert!(self.more().await, "the server hung up before its challenge");
        }
    }

    /// Sends bytes; a server that has hung up takes none, which is no matter.
    pub(super) async fn bytes(&mut self, bytes: &[u8]) {
        drop(within("sending", self.stream.write_all(bytes)).await);
    }

    /// Sends a frame, masked as a client's must be.
    pub(super) async fn frame(&mut self, first: u8, payload: &[u8]) {
        let mut bytes = vec![first];
        length(&mut bytes, 0x80, payload.len());
        let mask = [1, 2, 3, 4];
        bytes.extend(mask);
        bytes.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        self.bytes(&bytes).await;
    }

    /// Sends a frame without a mask.
    pub(super) async fn unmasked(&mut self, first: u8, payload: &[u8]) {
        let mut bytes = vec![first];
        length(&mut bytes, 0, payload.len());
        bytes.extend(payload);
        self.bytes(&bytes).await;
    }

    /// The code of the server's close, once it has hung up; `None` when it did so without a word.
    pub(super) async fn close_code(mut self) -> Option<u16> {
        loop {
            let mut rest = self.read.as_slice();
            while let Some((opcode, payload, after)) = next_frame(rest) {
                if opcode == 8 {
                    return payload.first_chunk::<2>().map(|code| u16::from_be_bytes(*code));
                }
                rest = after;
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn more(&mut self) -> bool {
        let mut part = [0; 4096];
        let read = within("bytes or the end", self.stream.read(&mut part)).await;
        match read {
            Ok(0) | Err(_) => false,
            Ok(bytes) => {
                self.read.extend_from_slice(&part[..bytes]);
                true
            }
        }
    }
}

fn next_frame(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let mut cursor = std::io::Cursor::new(bytes);
    let (header, length) = FrameHeader::parse(&mut cursor).expect("the server's frames are good")?;
    let rest = &bytes[usize::try_from(cursor.position()).ok()?..];
    let (payload, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    Some((u8::from(header.opcode), payload, after))
}

#[expect(clippy::decimal_bitwise_operands, reason = "as the standard says it")]
fn length(bytes: &mut Vec<u8>, mask: u8, length: usize) {
    match u16::try_from(length) {
        Ok(short) if short < 126 => bytes.push(mask | u8::try_from(short).expect("checked")),
        Ok(short) => {
            bytes.push(mask | 126);
            bytes.extend(short.to_be_bytes());
        }
        Err(_long) => {
            bytes.push(mask | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
}
