//! A line between a node and a server that can be slow, stand still, or be cut.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};

/// What happens to what is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quality {
    /// It arrives so much later.
    Late(Duration),
    /// It waits, and nobody is told.
    Still,
}

/// Passes every connection on to a server. All of them end when this is dropped.
#[derive(Debug)]
pub(super) struct Line {
    address: SocketAddr,
    quality: watch::Sender<Quality>,
    cut: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl Line {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (quality, now) = watch::channel(Quality::Late(Duration::ZERO));
        let (cut, cuts) = watch::channel(0);
        let accepting = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (now, mut cuts) = (now.clone(), cuts.clone());
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    let Ok(far) = TcpStream::connect(server).await else {
                        return;
                    };
                    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                    tokio::select! {
                        () = carry(near_in, far_out, now.clone()) => {}
                        () = carry(far_in, near_out, now) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            quality,
            cut,
            accepting,
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn becomes(&self, quality: Quality) {
        self.quality.send_replace(quality);
    }

    /// Ends the connections that there are.
    pub(super) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Carries one direction until it ends.
async fn carry(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin,
    mut quality: watch::Receiver<Quality>,
) {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(64);
    let reading = async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read) = from.read(&mut buffer).await {
            let piece = buffer.get(..read).unwrap_or_default().to_vec();
            if read == 0 || sender.send((Instant::now(), piece)).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((came, piece)) = pieces.recv().await {
            let Ok(moving) = quality
                .wait_for(|quality| *quality != Quality::Still)
                .await
                .map(|quality| *quality)
            else {
                return;
            };
            let late = match moving {
                Quality::Late(late) => late,
                Quality::Still => Duration::ZERO,
            };
            tokio::time::sleep_until(came + late).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(reading, writing);
}
