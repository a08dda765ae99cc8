//! Urgent data: Linux stops a receive in front of it, so a receive that brought less than there was room for has not drained
//! the socket.

use socket2::SockRef;
use tickwire::{Builder, Event};

use crate::common::{Client, accept, frame, pump, server};

#[test]
fn urgent_data_does_not_stall_a_connection() {
    let (mut reactor, addr) = server(Builder::new());
    let mut client = Client::connect(addr);
    let conn = accept(&mut reactor);
    for round in 0..20u8 {
        // All of it is there before the server looks, with the urgent byte, which is no part of the stream, in between.
        let bytes = [frame(&[round; 100]), frame(b"behind it")].concat();
        let cut = usize::from(round) * 5;
        client.write(&bytes[..cut]);
        let sent = SockRef::from(&client.stream).send_out_of_band(b"!");
        assert_eq!(sent.expect("TCP has it"), 1);
        client.write(&bytes[cut..]);
        let mut payloads = Vec::new();
        pump(&mut reactor, |event, _| {
            let Event::Message { conn: from, payload } = event else { panic!("{event:?}") };
            assert_eq!(from, conn);
            payloads.push(payload.to_vec());
            payloads.len() == 2
        });
        assert_eq!(payloads, [vec![round; 100], b"behind it".to_vec()], "round {round}");
    }
}
