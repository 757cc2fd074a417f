//! One connection: bounded reading and writing, and whether anybody is still there.

use std::{io, os::fd::AsFd as _, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::UnixStream,
    time::timeout,
};

use countersign_protocol::ipc::{LineReader, Read};
use countersign_sys::readiness;

/// How long a line may take, from its first byte to its last, and a reply (`docs/spec/ipc.md#7-limits`).
pub(super) const LINE_TIME: Duration = Duration::from_secs(15);
/// How long what a peer still sends is taken off it, so that it reads the reply instead of a reset.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// How much of it.
const MAX_DRAINED: usize = 2 << 20;
const BLOCK: usize = 16 * 1024;

/// What came of reading a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Incoming {
    /// A line, ended by its newline or by the end of the stream.
    Line(Vec<u8>),
    /// More than a line may have.
    TooLong,
    /// Part of a line, and then nothing for too long.
    Unfinished,
    /// Nothing for too long, and it may still come.
    Silence,
    /// The end, without a byte.
    Closed,
}

/// Reads one line within its time.
pub(super) async fn read_line(
    stream: &mut UnixStream,
    reader: &mut LineReader,
    within: Duration,
) -> Incoming {
    let reading = timeout(within, read_on(stream, reader));
    match reading.await {
        Ok(Ok(incoming)) => incoming,
        // A peer that resets its side sent nothing that could be answered.
        Ok(Err(_broken)) => Incoming::Closed,
        Err(_elapsed) if reader.finish().is_empty() => Incoming::Silence,
        Err(_elapsed) => Incoming::Unfinished,
    }
}

async fn read_on(stream: &mut UnixStream, reader: &mut LineReader) -> io::Result<Incoming> {
    let mut block = vec![0; BLOCK];
    let mut read = reader.next_line();
    loop {
        match read {
            Read::Line(line) => return Ok(Incoming::Line(line)),
            Read::TooLong => return Ok(Incoming::TooLong),
            Read::More => {}
        }
        let count = stream.read(&mut block).await?;
        if count == 0 {
            let rest = reader.finish();
            return Ok(if rest.is_empty() {
                Incoming::Closed
            } else {
                Incoming::Line(rest)
            });
        }
        read = reader.push(block.get(..count).unwrap_or_default());
    }
}

/// Writes within the time for it. A peer that is gone is an error, never a signal.
pub(super) async fn write(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    timeout(LINE_TIME, stream.write_all(bytes))
        .await
        .unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}

/// Ends a connection so that the peer can read what was written.
pub(super) async fn close(mut stream: UnixStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut block = vec![0; BLOCK];
        let mut drained = 0;
        while drained < MAX_DRAINED {
            match stream.read(&mut block).await {
                Ok(0) | Err(_) => return,
                Ok(count) => drained += count,
            }
        }
    };
    // What is left after that is the peer's own fault.
    drop(timeout(DRAIN_TIME, drain).await);
}

/// Ends when the peer has closed both directions. One that only sends nothing more is still there.
///
/// It watches a descriptor of its own: a task that waits for the next change forgets that the socket can be written to,
/// and the task that writes to it must not forget that.
pub(super) async fn gone(stream: &UnixStream) {
    let watched = stream
        .as_fd()
        .try_clone_to_owned()
        .and_then(|descriptor| readiness::watch(descriptor, Interest::WRITABLE));
    let Ok(watched) = watched else {
        // It cannot be watched, so it is there until a write says otherwise.
        return std::future::pending().await;
    };
    loop {
        match watched.writable().await {
            Ok(ready) if ready.ready().is_write_closed() => return,
            Ok(mut ready) => ready.clear_ready(),
            Err(_broken) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_pending(watched: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        timeout(Duration::from_millis(20), watched).await.is_err()
    }

    #[tokio::test]
    async fn half_a_close_is_no_end_and_a_whole_one_is() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut watched = Box::pin(gone(&here));
        assert!(is_pending(watched.as_mut()).await);
        there.write_all(b"x").await.unwrap();
        there.shutdown().await.unwrap();
        assert!(is_pending(watched.as_mut()).await);
        drop(there);
        watched.await;
    }

    #[tokio::test]
    async fn whoever_is_watched_can_still_be_written_to() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        {
            let mut watched = Box::pin(gone(&here));
            assert!(
                timeout(Duration::from_millis(20), watched.as_mut())
                    .await
                    .is_err()
            );
        }
        write(&mut here, b"reply").await.unwrap();
        let mut read = [0; 5];
        there.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"reply");
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_has_its_time() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        assert_eq!(
            read_line(&mut here, &mut LineReader::default(), LINE_TIME).await,
            Incoming::Silence
        );
        there.write_all(b"half").await.unwrap();
        assert_eq!(
            read_line(&mut here, &mut LineReader::default(), LINE_TIME).await,
            Incoming::Unfinished
        );
        drop(there);
        assert_eq!(
            read_line(&mut here, &mut LineReader::default(), LINE_TIME).await,
            Incoming::Closed
        );
    }
}
