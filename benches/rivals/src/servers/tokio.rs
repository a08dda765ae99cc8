//! tokio on one thread, with tokio-util's codec: a task for each connection.
//!
//! Plain is what its documentation leads to: each message is sent when it is ready. Best feeds everything that is there and
//! then flushes, so that it leaves together.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::codec::{Framed, FramedRead, FramedWrite, LengthDelimitedCodec};

use super::{PAYLOAD_MAX, listener};
use crate::Failure;
use crate::plan::{Serve, Work};
use crate::process;

type Everybody = Arc<Mutex<Vec<UnboundedSender<Bytes>>>>;

pub fn run(serve: &Serve, is_best: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let work = serve.work;
    runtime.block_on(async {
        let listener = listener()?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        process::announce(listener.local_addr()?.port());
        let everybody = Everybody::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            if work == Work::ToAll {
                let (sender, receiver) = unbounded_channel();
                everybody.lock().expect("nobody panics").push(sender);
                let (input, output) = stream.into_split();
                tokio::spawn(hear(FramedRead::new(input, codec()), everybody.clone()));
                tokio::spawn(say(FramedWrite::new(output, codec()), receiver, is_best));
            } else if is_best {
                tokio::spawn(echo_best(stream));
            } else {
                tokio::spawn(echo(stream));
            }
        }
    })
}

fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(PAYLOAD_MAX).new_codec()
}

// A connection that breaks ends its tasks; in a benchmark nobody asks why.

async fn echo(stream: TcpStream) {
    let mut framed = Framed::new(stream, codec());
    while let Some(Ok(message)) = framed.next().await {
        if framed.send(message.freeze()).await.is_err() {
            return;
        }
    }
}

async fn echo_best(stream: TcpStream) {
    let mut framed = Framed::new(stream, codec());
    while let Some(Ok(message)) = framed.next().await {
        if framed.feed(message.freeze()).await.is_err() {
            return;
        }
        while let Some(Some(Ok(message))) = framed.next().now_or_never() {
            if framed.feed(message.freeze()).await.is_err() {
                return;
            }
        }
        if SinkExt::<Bytes>::flush(&mut framed).await.is_err() {
            return;
        }
    }
}

async fn hear(
    mut input: FramedRead<tokio::net::tcp::OwnedReadHalf, LengthDelimitedCodec>,
    everybody: Everybody,
) {
    while let Some(Ok(message)) = input.next().await {
        let message = message.freeze();
        everybody.lock().expect("nobody panics").retain(|one| one.send(message.clone()).is_ok());
    }
}

async fn say(
    mut output: FramedWrite<tokio::net::tcp::OwnedWriteHalf, LengthDelimitedCodec>,
    mut messages: UnboundedReceiver<Bytes>,
    is_best: bool,
) {
    while let Some(message) = messages.recv().await {
        if !is_best {
            if output.send(message).await.is_err() {
                return;
            }
            continue;
        }
        if output.feed(message).await.is_err() {
            return;
        }
        while let Ok(message) = messages.try_recv() {
            if output.feed(message).await.is_err() {
                return;
            }
        }
        if SinkExt::<Bytes>::flush(&mut output).await.is_err() {
            return;
        }
    }
}
