// A client that does on the wire what today's Telepathy does, written from what was observed of it, and driven by lines:
//
//     mcs -out:/tmp/telepathy.exe tests/telepathy_client.cs && mono /tmp/telepathy.exe 127.0.0.1 7777 merged mmo
//
// Its manners: connecting, receiving and sending on threads of their own, with blocking calls; no handshake, no heartbeat, no
// goodbye; TCP_NODELAY on, 5 s to send; a 4-byte big-endian length, and the connection closed on one that is 0, negative or
// above its own limit; all that waits sent with one write (`merged`), or header and payload with a write each (`two`), as its
// first versions did; at most 10,000 messages waiting in each direction, or it closes; a payload of 0 bytes taken by
// Send, though the other side will not have it; and a disconnect that drops what was not sent yet.
//
// What a line may say (in `mmo`, see examples/mmo.rs, or `echo`):
//     connect | login NAME | walk X Y | chat TEXT | send BYTES | burst COUNT BYTES | raw HEX | crumbs HEX | disconnect
// It prints what happens, a line for each event.
using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Sockets;
using System.Text;
using System.Threading;

sealed class Telepathist {
    const int QueueLimit = 10000; // messages, each way
    public enum Kind { Connected, Data, Disconnected }
    public struct Event { public Kind Kind; public byte[] Data; }

    readonly int messageMax;
    readonly bool mergesWrites;
    Link link;

    public Telepathist(int messageMax, bool mergesWrites) {
        this.messageMax = messageMax;
        this.mergesWrites = mergesWrites;
    }

    // What belongs to one attempt, so that an earlier one cannot disturb a later one.
    sealed class Link {
        public TcpClient Tcp;
        public volatile bool IsConnected;
        public readonly Queue<Event> Received = new Queue<Event>(); // locked; as are the next
        public readonly Queue<byte[]> ToSend = new Queue<byte[]>();
        public readonly ManualResetEvent SendPending = new ManualResetEvent(false);

        public void Add(Kind kind, byte[] data) {
            lock (Received) Received.Enqueue(new Event { Kind = kind, Data = data });
        }
    }

    public bool IsConnected { get { return link != null && link.IsConnected; } }

    public void Connect(string host, int port) {
        var mine = link = new Link();
        new Thread(() => Run(mine, host, port)) { IsBackground = true }.Start();
    }

    // At once: what was not sent is lost.
    public void Disconnect() {
        if (link != null && link.Tcp != null) link.Tcp.Close();
    }

    public bool Send(byte[] message) {
        if (!IsConnected || message.Length > messageMax) return false;
        lock (link.ToSend) {
            if (link.ToSend.Count >= QueueLimit) {
                Disconnect();
                return false;
            }
            link.ToSend.Enqueue(message);
        }
        link.SendPending.Set();
        return true;
    }

    // Past all manners, for what a broken or hostile client sends.
    public void Write(byte[] bytes) {
        link.Tcp.GetStream().Write(bytes, 0, bytes.Length);
    }

    public IEnumerable<Event> Tick(int limit) {
        while (link != null && limit-- > 0) {
            Event next;
            lock (link.Received) {
                if (link.Received.Count == 0) yield break;
                next = link.Received.Dequeue();
            }
            yield return next;
        }
    }

    void Run(Link mine, string host, int port) {
        try {
            mine.Tcp = new TcpClient(host, port);
            mine.Tcp.NoDelay = true;
            mine.Tcp.SendTimeout = 5000;
            mine.IsConnected = true;
            mine.Add(Kind.Connected, null);
            new Thread(() => SendLoop(mine)) { IsBackground = true }.Start();
            ReceiveLoop(mine);
        } catch (Exception) {
            // An end like any other: it has no reasons.
        }
        mine.IsConnected = false;
        mine.SendPending.Set(); // lets the sending thread end
        if (mine.Tcp != null) mine.Tcp.Close();
        mine.Add(Kind.Disconnected, null);
    }

    void ReceiveLoop(Link mine) {
        NetworkStream stream = mine.Tcp.GetStream();
        var header = new byte[4];
        while (ReadExactly(stream, header)) {
            int size = header[0] << 24 | header[1] << 16 | header[2] << 8 | header[3];
            if (size <= 0 || size > messageMax) return;
            var message = new byte[size];
            if (!ReadExactly(stream, message)) return;
            mine.Add(Kind.Data, message);
            lock (mine.Received) if (mine.Received.Count >= QueueLimit) return;
        }
    }

    static bool ReadExactly(Stream stream, byte[] to) {
        for (int at = 0; at < to.Length;) {
            int got = stream.Read(to, at, to.Length - at);
            if (got == 0) return false;
            at += got;
        }
        return true;
    }

    void SendLoop(Link mine) {
        try {
            NetworkStream stream = mine.Tcp.GetStream();
            while (mine.IsConnected) {
                mine.SendPending.Reset();
                byte[][] all;
                lock (mine.ToSend) {
                    all = mine.ToSend.ToArray();
                    mine.ToSend.Clear();
                }
                if (all.Length == 0) {
                    mine.SendPending.WaitOne();
                } else if (mergesWrites) {
                    var merged = new MemoryStream();
                    foreach (byte[] message in all) {
                        merged.Write(Header(message.Length), 0, 4);
                        merged.Write(message, 0, message.Length);
                    }
                    stream.Write(merged.GetBuffer(), 0, (int)merged.Length);
                } else {
                    foreach (byte[] message in all) {
                        stream.Write(Header(message.Length), 0, 4);
                        stream.Write(message, 0, message.Length);
                    }
                }
            }
        } catch (Exception) {
            mine.Tcp.Close(); // the receiving thread tells
        }
    }

    static byte[] Header(int size) {
        return new[] { (byte)(size >> 24), (byte)(size >> 16), (byte)(size >> 8), (byte)size };
    }
}

static class Program {
    static readonly Queue<string> lines = new Queue<string>();
    static readonly UTF8Encoding utf8 = new UTF8Encoding(false);
    static int echoes;

    static int Main(string[] args) {
        // As Telepathy's users do, both sides have the same limit; what is larger has to be sent raw.
        var client = new Telepathist(16 * 1024, args[2] == "merged");
        var keyboard = new Thread(ReadLines) { IsBackground = true };
        keyboard.Start();
        for (;;) {
            string line = null;
            lock (lines) {
                if (lines.Count > 0) line = lines.Dequeue();
            }
            if (line == null && !keyboard.IsAlive) return 0;
            if (line != null) Obey(client, line.Split(new[] { ' ' }, 2), args);
            foreach (Telepathist.Event what in client.Tick(100)) {
                switch (what.Kind) {
                    case Telepathist.Kind.Connected: Console.WriteLine("connected"); break;
                    case Telepathist.Kind.Disconnected: Console.WriteLine("disconnected"); break;
                    default: Console.WriteLine(args[3] == "mmo" ? Told(what.Data) : Echoed(what.Data)); break;
                }
            }
            if (line == null) Thread.Sleep(5); // a game's frame
        }
    }

    static void ReadLines() {
        for (string line; (line = Console.ReadLine()) != null;) lock (lines) lines.Enqueue(line);
    }

    static void Obey(Telepathist client, string[] words, string[] args) {
        string rest = words.Length > 1 ? words[1] : "";
        switch (words[0]) {
            case "connect": client.Connect(args[0], int.Parse(args[1])); break;
            case "disconnect": client.Disconnect(); break;
            case "login": Send(client, 1, Text(1, rest)); break;
            case "walk":
                var place = new List<byte>();
                foreach (string number in rest.Split(' ')) {
                    short value = short.Parse(number);
                    place.Add((byte)(value >> 8));
                    place.Add((byte)value);
                }
                Send(client, 2, place);
                break;
            case "chat": Send(client, 3, Text(2, rest)); break;
            case "send":
                echoes = 0;
                Console.WriteLine("sent: " + client.Send(Pattern(int.Parse(rest), 0)));
                break;
            case "burst":
                echoes = 0;
                int count = int.Parse(rest.Split(' ')[0]), size = int.Parse(rest.Split(' ')[1]);
                for (int i = 0; i < count; i++) client.Send(Pattern(size, i));
                break;
            case "raw":
                client.Write(Hex(rest));
                Console.WriteLine("written");
                break;
            case "crumbs":
                foreach (byte crumb in Hex(rest)) client.Write(new[] { crumb });
                Console.WriteLine("written");
                break;
            default: throw new ArgumentException(words[0]);
        }
    }

    static void Send(Telepathist client, byte kind, List<byte> fields) {
        fields.Insert(0, kind);
        if (!client.Send(fields.ToArray())) Console.WriteLine("not sent");
    }

    static List<byte> Text(int width, string text) {
        byte[] bytes = utf8.GetBytes(text);
        var field = new List<byte>();
        if (width == 2) field.Add((byte)(bytes.Length >> 8));
        field.Add((byte)bytes.Length);
        field.AddRange(bytes);
        return field;
    }

    static byte[] Hex(string text) {
        var bytes = new byte[text.Length / 2];
        for (int i = 0; i < bytes.Length; i++) bytes[i] = Convert.ToByte(text.Substring(2 * i, 2), 16);
        return bytes;
    }

    static byte[] Pattern(int size, int number) {
        var bytes = new byte[size];
        for (int i = 0; i < size; i++) bytes[i] = (byte)(i * 31 + i / 251 + number * 7);
        return bytes;
    }

    static string Echoed(byte[] message) {
        byte[] wanted = Pattern(message.Length, echoes);
        for (int i = 0; i < wanted.Length; i++) if (message[i] != wanted[i]) return "echo " + echoes + " differs";
        return "echo " + echoes++ + " of " + message.Length + " bytes";
    }

    static string Told(byte[] message) {
        Func<int, int> u16 = at => message[at] << 8 | message[at + 1];
        Func<int, int> u32 = at => u16(at) << 16 | u16(at + 2);
        Func<int, int> i16 = at => (short)u16(at);
        switch (message[0]) {
            case 1: return "welcome " + u32(1);
            case 2: return "refused " + utf8.GetString(message, 2, message[1]);
            case 3: return "spawn " + u32(1) + " " + utf8.GetString(message, 10, message[9]) + " " + i16(5) + "," + i16(7);
            case 4: return "despawn " + u32(1);
            case 5:
                var places = new StringBuilder("places");
                for (int at = 1; at < message.Length; at += 8)
                    places.Append(" " + u32(at) + ":" + i16(at + 4) + "," + i16(at + 6));
                return places.ToString();
            case 6: return "said " + u32(1) + " " + utf8.GetString(message, 7, u16(5));
            default: return "unknown " + message[0];
        }
    }
}
