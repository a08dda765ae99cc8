// A client for tickwire's default framing, and so for Telepathy's: a 4-byte big-endian length, then the payload.
//
// Node 14 or later, no packages. `require` this file for its class `Client`; run by itself it shows it:
//
//     cargo run --example echo                                  # in another terminal
//     node examples/clients/client.js 127.0.0.1 7777
//
// It says hello once a second and shows what comes back; stop the server and start it again to see what happens then.
// With `--check N` it sends messages of many sizes, checks every byte that comes back, N times on N connections.
"use strict";
const net = require("net");

/**
 * Call `update()` once a frame; it returns what has happened since, as a list of
 *     { type: "connected" }                then come its messages, in order, and then exactly one
 *     { type: "disconnected", reason }     whoever closed
 *     { type: "message", payload }         a Buffer of your own, to keep
 *     { type: "failed", reason }           an attempt to connect has come to nothing
 * After "disconnected" and "failed" it tries again after `retryIn` milliseconds, unless `close()` was called.
 *
 * Node hands over bytes between the frames, whenever it likes; here they wait for the frame. When many wait, the
 * socket is not read any more, and TCP slows the server down.
 */
class Client {
  constructor(host, port, options = {}) {
    this.host = host;
    this.port = port;
    this.frameMax = 16384; // the largest payload, both ways
    this.queueMax = 1 << 20; // how many bytes may wait to be sent
    this.inboxMax = 1 << 20; // how many received bytes may wait for `update()`
    this.retryMin = 500;
    this.retryMax = 30000;
    this.timeout = 10000; // of an attempt to connect
    Object.assign(this, options);
    this.connected = false;
    this.retryIn = null;
    this._attempts = 0; // in a row without a message
    this._events = [];
    this._inbox = 0;
    this._nextTry = 0;
    this._wanted = true;
    this._socket = null;
  }

  /**
   * Queues a message. False if it is refused, whole: not connected, larger than `frameMax`, or too much is waiting
   * already (try again in a later frame, or leave it out).
   */
  send(payload) {
    if (!this.connected || payload.length > this.frameMax) return false;
    if (this.queued + 4 + payload.length > this.queueMax) return false;
    const frame = Buffer.allocUnsafe(4 + payload.length);
    frame.writeUInt32BE(payload.length, 0);
    frame.set(payload, 4);
    if (!this._corked) {
      this._socket.cork(); // one write for all messages of a frame
      this._corked = true;
    }
    this._socket.write(frame);
    return true;
  }

  /** How many bytes wait to be sent. */
  get queued() {
    return this._socket ? this._socket.writableLength : 0;
  }

  /** Sends what waits. `update()` does it too: call it after the last `send()` of a frame. */
  flush() {
    if (this._corked) this._socket.uncork();
    this._corked = false;
  }

  /** Ends it, in order and for good; Node still sends what was queued. */
  close() {
    this._wanted = false;
    const socket = this._socket;
    if (!socket) return;
    this.flush();
    if (this.connected) this._events.push({ type: "disconnected", reason: "closed by us" });
    this._socket = null;
    this.connected = false;
    socket.removeAllListeners("data");
    socket.resume(); // what still comes is of no interest, but unread it would turn the end into a reset
    socket.end();
    socket.setTimeout(this.timeout, () => socket.destroy()); // a server that never ends its side
  }

  update() {
    if (!this._socket && this._wanted && Date.now() >= this._nextTry) this._begin();
    this.flush();
    const events = this._events;
    this._events = [];
    this._inbox = 0;
    if (this._socket) this._socket.resume();
    return events;
  }

  _begin() {
    const socket = net.connect({ host: this.host, port: this.port, noDelay: true });
    this._socket = socket;
    this._corked = false;
    this._partial = [];
    this._partialLength = 0;
    this.retryIn = null;
    const timer = setTimeout(() => this._lose(socket, "timed out"), this.timeout);
    socket.setNoDelay(true);
    socket.on("connect", () => {
      clearTimeout(timer);
      if (socket !== this._socket) return;
      this.connected = true;
      this._events.push({ type: "connected" });
    });
    socket.on("data", (bytes) => this._receive(socket, bytes));
    socket.on("end", () => {
      const cutOff = this._partialLength > 0;
      this._lose(socket, cutOff ? "the connection was cut off within a message" : "the server closed the connection");
    });
    socket.on("error", (error) => {
      clearTimeout(timer);
      this._lose(socket, reasonOf(error));
    });
    socket.on("close", () => clearTimeout(timer));
  }

  _receive(socket, bytes) {
    if (socket !== this._socket) return;
    this._inbox += bytes.length;
    if (this._inbox > this.inboxMax) socket.pause();
    // Pieces of an unfinished frame are put together once, when the last of them is there.
    this._partial.push(bytes);
    this._partialLength += bytes.length;
    if (this._partialLength < this._frameLength()) return;
    const all = this._partial.length === 1 ? bytes : Buffer.concat(this._partial);
    let at = 0;
    while (all.length - at >= 4) {
      const length = all.readUInt32BE(at);
      if (length > this.frameMax) {
        // Nothing was allocated for it, and what follows has no meaning.
        this._lose(socket, `frame too large: ${length} bytes, limit ${this.frameMax}`);
        return;
      }
      if (all.length - at - 4 < length) break;
      this._events.push({ type: "message", payload: all.subarray(at + 4, at + 4 + length) });
      this._attempts = 0; // a server that works: the next wait starts small again
      at += 4 + length;
    }
    this._partial = at < all.length ? [all.subarray(at)] : [];
    this._partialLength = all.length - at;
  }

  /** How many bytes it takes to get on with the frame at the front. */
  _frameLength() {
    const first = this._partial[0];
    if (first.length >= 4) {
      const length = first.readUInt32BE(0);
      return length > this.frameMax ? 4 : 4 + length;
    }
    return 4;
  }

  /**
   * Ends a connection or an attempt; the next one comes after a while, a longer one each time. The chance in it keeps a
   * thousand clients from coming back in the same moment.
   */
  _lose(socket, reason) {
    if (socket !== this._socket) return; // told already
    this._events.push({ type: this.connected ? "disconnected" : "failed", reason });
    this._socket = null;
    this.connected = false;
    socket.destroy();
    const longest = Math.min(this.retryMax, this.retryMin * 2 ** Math.min(this._attempts, 20));
    this.retryIn = longest * (0.5 + Math.random() / 2);
    this._attempts += 1;
    this._nextTry = Date.now() + this.retryIn;
  }
}

function reasonOf(error) {
  if (error.code === "ECONNRESET" || error.code === "EPIPE") return "the connection was reset";
  if (error.code === "ECONNREFUSED") return "connection refused";
  return error.message;
}

module.exports = { Client };

// From here on: the program that shows it.

function tell(client, event) {
  if (event.type === "connected") console.log("connected");
  if (event.type !== "disconnected" && event.type !== "failed") return;
  console.log((event.type === "failed" ? "cannot connect: " : "disconnected: ") + event.reason);
  if (client.retryIn !== null) console.log(`trying again in ${(client.retryIn / 1000).toFixed(2)} s`);
}

function demo(host, port) {
  const client = new Client(host, port);
  let number = 0;
  let nextHello = 0;
  console.log(`connecting to ${host}:${port}; Ctrl-C ends it`);
  const frame = () => {
    for (const event of client.update()) {
      tell(client, event);
      if (event.type === "message") console.log("got:  " + event.payload.toString());
    }
    if (client.connected && Date.now() >= nextHello) {
      nextHello = Date.now() + 1000;
      number += 1;
      if (client.send(Buffer.from(`hello ${number}`))) console.log(`sent: hello ${number}`);
    }
    client.flush();
  };
  const loop = setInterval(frame, 1000 / 60);
  process.on("SIGINT", () => {
    clearInterval(loop);
    client.close();
    for (const event of client.update()) tell(client, event);
  });
}

/**
 * What `--check` sends: every size that is special, small ones in a row, and more than all the buffers on the way hold. A
 * message's first bytes are its number, so that a wrong order shows too.
 */
function* messages(frameMax) {
  const pattern = Buffer.from(Array.from({ length: frameMax }, (_, i) => (i * 31 + Math.floor(i / 251)) & 255));
  const sizes = [0, 1, 100, 1000, frameMax];
  for (let i = 0; i < 500; i++) sizes.push(i % 50);
  for (let i = 0; i < 600; i++) sizes.push(frameMax);
  for (const [number, size] of sizes.entries()) {
    const head = Buffer.alloc(4);
    head.writeUInt32BE(number);
    yield Buffer.concat([head.subarray(0, size), pattern.subarray(4, Math.max(4, size))]);
  }
}

function check(host, port, rounds) {
  const client = new Client(host, port, { retryMin: 20, retryMax: 200 });
  const fail = (problem) => {
    console.error("error: " + problem);
    process.exit(1);
  };
  if (client.send(Buffer.from("early"))) fail("it is not connected yet");
  let done = 0;
  let unsent, awaited, wanted, waiting, isLate, count, size;
  const loop = setInterval(() => {
    for (const event of client.update()) {
      tell(client, event);
      if (event.type === "connected") {
        if (client.send(Buffer.alloc(client.frameMax + 1))) fail("it took what is larger than the limit");
        [unsent, awaited] = [messages(client.frameMax), messages(client.frameMax)];
        [waiting, wanted] = [unsent.next().value, awaited.next().value];
        [isLate, count, size] = [false, 0, 0];
      } else if (event.type === "message") {
        if (!wanted || !wanted.equals(event.payload)) fail(`message ${count} is not what was sent`);
        count += 1;
        size += event.payload.length;
        wanted = awaited.next().value;
        if (!wanted) {
          done += 1;
          console.log(`round ${done} ok: ${count} messages, ${size} bytes`);
          if (done === rounds) client.close();
        }
      } else if (event.reason === "closed by us") {
        return clearInterval(loop);
      }
    }
    while (client.connected && waiting && client.send(waiting)) waiting = unsent.next().value;
    if (client.connected && waiting && !isLate) {
      isLate = true;
      console.log("send queue full: the rest follows");
    }
    client.flush();
  }, 1);
}

if (require.main === module) {
  const [host, port, mode, rounds] = process.argv.slice(2);
  if (!port || (mode && (mode !== "--check" || !rounds))) {
    console.error("usage: client.js HOST PORT [--check ROUNDS]");
    process.exitCode = 1;
  } else if (mode) {
    check(host, Number(port), Number(rounds));
  } else {
    demo(host, Number(port));
  }
}
