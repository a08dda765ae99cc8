// A client for tickwire's default framing, and so for Telepathy's: a 4-byte big-endian length, then the payload.
//
// Paste this file into a Unity project, or any other, and take away what stands below "From here on". It uses nothing of
// Unity, and of .NET only TcpClient; C# 6. In Unity:
//
//     public class Network : MonoBehaviour {
//         readonly TickwireClient client = new TickwireClient("127.0.0.1", 7777);
//         void Awake()     { client.Message += bytes => { /* read bytes.Array from bytes.Offset, bytes.Count of them */ };
//                            client.Disconnected += reason => Debug.Log(reason); }
//         void Update()    { client.Update(); }
//         void LateUpdate() { client.Flush(); }
//         void OnDestroy() { client.Close(); }
//     }
//
// By itself it is a little program:
//
//     cargo run --example echo                                  # in another terminal
//     mcs -out:/tmp/client.exe examples/clients/TickwireClient.cs && mono /tmp/client.exe 127.0.0.1 7777
//
// It says hello once a second and shows what comes back; stop the server and start it again to see what happens then.
// With `--check N` it sends messages of many sizes, checks every byte that comes back, N times on N connections.
using System;
using System.Diagnostics;
using System.Net.Sockets;
using System.Threading;

/// <summary>
/// Call <c>Update()</c> once a frame: all events are raised inside of it, on your thread. Nothing blocks, no thread is
/// started, and a message allocates nothing, neither to send nor to receive.
/// </summary>
public sealed class TickwireClient {
    /// <summary>Then come its messages, in order, and then exactly one Disconnected.</summary>
    public event Action Connected;
    /// <summary>Valid until you return. Mind Offset and Count: the array is larger. To keep it, copy it.</summary>
    public event Action<ArraySegment<byte>> Message;
    /// <summary>Whoever closed; with the reason. Then it tries again after RetryIn seconds, unless Close() was called.</summary>
    public event Action<string> Disconnected;
    /// <summary>An attempt to connect has come to nothing. Then it tries again.</summary>
    public event Action<string> ConnectFailed;

    /// <summary>Seconds: of the first wait before another attempt, of the longest, and for an attempt to connect.</summary>
    public double RetryMin = 0.5, RetryMax = 30, Timeout = 10;
    /// <summary>InterNetworkV6 for IPv6. One of the two at a time.</summary>
    public AddressFamily Family = AddressFamily.InterNetwork;

    public bool IsConnected { get; private set; }
    /// <summary>Seconds until the next attempt, as they were when it was planned; negative if none is.</summary>
    public double RetryIn { get; private set; }
    /// <summary>How many bytes wait to be sent.</summary>
    public int Queued { get { return outEnd - outBegin; } }
    /// <summary>The largest payload, both ways.</summary>
    public readonly int FrameMax;

    const int BytesPerUpdate = 256 * 1024; // so that a flood cannot hold up a frame
    const int BytesPerSend = 4096;
    readonly string host;
    readonly int port;
    readonly byte[] input, output;
    readonly Stopwatch clock = Stopwatch.StartNew();
    readonly Random random = new Random(Guid.NewGuid().GetHashCode());
    int inBegin, inEnd, outBegin, outEnd; // begin <= end <= length
    TcpClient tcp;
    IAsyncResult connecting;
    SocketError sendError;
    double deadline, nextTry;
    int attempts; // in a row without a message
    bool closed, closedByUs, updating;

    public TickwireClient(string host, int port, int frameMax = 16384, int queueMax = 1 << 20) {
        this.host = host;
        this.port = port;
        FrameMax = frameMax;
        RetryIn = -1;
        input = new byte[Math.Max(4 + frameMax, 65536)];
        output = new byte[queueMax];
    }

    /// <summary>
    /// Queues a message. False if it is refused, whole: not connected, larger than FrameMax, or too much is waiting
    /// already (try again in a later frame, or leave it out).
    /// </summary>
    public bool Send(ArraySegment<byte> payload) {
        int size = payload.Count;
        if (!IsConnected || size > FrameMax || size > output.Length - 4 - Queued) return false;
        if (output.Length - outEnd < 4 + size) {
            Buffer.BlockCopy(output, outBegin, output, 0, Queued);
            outEnd -= outBegin;
            outBegin = 0;
        }
        output[outEnd] = (byte)(size >> 24);
        output[outEnd + 1] = (byte)(size >> 16);
        output[outEnd + 2] = (byte)(size >> 8);
        output[outEnd + 3] = (byte)size;
        if (size > 0) Buffer.BlockCopy(payload.Array, payload.Offset, output, outEnd + 4, size);
        outEnd += 4 + size;
        return true;
    }

    public bool Send(byte[] payload) {
        return Send(new ArraySegment<byte>(payload));
    }

    /// <summary>Sends what the socket takes now. Update() does it too: call it after the last Send() of a frame.</summary>
    public void Flush() {
        // Mono, and so Unity, does not return from Send() before all is sent, not even from a socket that is not to block.
        // So it is asked first, and given no more than what a writable socket has room for.
        while (IsConnected && Queued > 0 && tcp.Client.Poll(0, SelectMode.SelectWrite)) {
            SocketError error;
            int size = Math.Min(Queued, BytesPerSend);
            int sent = tcp.Client.Send(output, outBegin, size, SocketFlags.None, out error);
            if (error != SocketError.Success || sent <= 0) {
                // Anything worse is told when all that has arrived is read.
                if (error != SocketError.WouldBlock && error != SocketError.Success) sendError = error;
                return;
            }
            outBegin += sent;
        }
        if (Queued == 0) outBegin = outEnd = 0;
    }

    /// <summary>
    /// Ends it, in order and for good; the next Update() raises Disconnected. What the socket does not take at once is
    /// lost.
    /// </summary>
    public void Close() {
        closed = true;
        RetryIn = -1;
        if (IsConnected) {
            Flush();
            closedByUs = true;
        }
        Drop();
    }

    public void Update() {
        if (updating) throw new InvalidOperationException("Update() was called by one of its own events");
        updating = true;
        try {
            if (closedByUs) {
                closedByUs = false;
                if (Disconnected != null) Disconnected("closed by us");
            }
            if (tcp == null) {
                if (!closed && Now >= nextTry) Begin();
            } else if (!IsConnected) {
                Finish();
            }
            Flush();
            Receive();
        } finally {
            updating = false;
        }
    }

    double Now { get { return clock.Elapsed.TotalSeconds; } }

    void Begin() {
        RetryIn = -1;
        deadline = Now + Timeout;
        try {
            tcp = new TcpClient(Family);
            tcp.NoDelay = true;
            connecting = tcp.BeginConnect(host, port, null, null); // looks up the name, too, without blocking
        } catch (Exception exception) {
            Lose(ReasonOf(exception));
        }
    }

    void Finish() {
        if (!connecting.IsCompleted) {
            if (Now >= deadline) Lose("timed out");
            return;
        }
        try {
            tcp.EndConnect(connecting);
            tcp.Client.Blocking = false;
        } catch (Exception exception) {
            Lose(ReasonOf(exception));
            return;
        }
        IsConnected = true;
        if (Connected != null) Connected();
    }

    void Receive() {
        int budget = BytesPerUpdate;
        TakeFrames(); // what is left if a handler has thrown
        while (IsConnected && budget > 0) {
            SocketError error;
            int got = tcp.Client.Receive(input, inEnd, input.Length - inEnd, SocketFlags.None, out error);
            if (error == SocketError.WouldBlock) return;
            if (error == SocketError.Success && got == 0) error = sendError; // which receiving does not see again
            if (error != SocketError.Success) {
                Lose(ReasonOf(error));
            } else if (got == 0) {
                bool cutOff = inEnd > inBegin;
                Lose(cutOff ? "the connection was cut off within a message" : "the server closed the connection");
            } else {
                inEnd += got;
                budget -= got;
                TakeFrames();
            }
        }
    }

    void TakeFrames() {
        while (IsConnected && inEnd - inBegin >= 4) {
            uint size = (uint)input[inBegin] << 24 | (uint)input[inBegin + 1] << 16
                | (uint)input[inBegin + 2] << 8 | input[inBegin + 3];
            if (size > FrameMax) {
                // Nothing is allocated for it, and what follows has no meaning.
                Lose("frame too large: " + size + " bytes, limit " + FrameMax);
                return;
            }
            if (inEnd - inBegin - 4 < size) break;
            int at = inBegin + 4;
            inBegin = at + (int)size; // before the event: should a handler throw, the next Update() goes on behind it
            attempts = 0; // a server that works: the next wait starts small again
            if (Message != null) Message(new ArraySegment<byte>(input, at, (int)size));
        }
        // What is left is less than a frame, so there is room behind it once it stands in front.
        Buffer.BlockCopy(input, inBegin, input, 0, inEnd - inBegin);
        inEnd -= inBegin;
        inBegin = 0;
    }

    // Ends a connection or an attempt; the next one comes after a while, a longer one each time. The chance in it keeps a
    // thousand clients from coming back in the same moment.
    void Lose(string reason) {
        bool wasConnected = IsConnected;
        Drop();
        double longest = Math.Min(RetryMax, RetryMin * Math.Pow(2, Math.Min(attempts, 20)));
        RetryIn = longest * (0.5 + 0.5 * random.NextDouble());
        nextTry = Now + RetryIn;
        attempts++;
        Action<string> raise = wasConnected ? Disconnected : ConnectFailed;
        if (raise != null) raise(reason);
    }

    void Drop() {
        if (tcp != null) tcp.Close();
        tcp = null;
        IsConnected = false;
        sendError = SocketError.Success;
        inBegin = inEnd = outBegin = outEnd = 0;
    }

    static string ReasonOf(Exception exception) {
        var socketException = exception as SocketException;
        return socketException != null ? ReasonOf(socketException.SocketErrorCode) : exception.Message;
    }

    static string ReasonOf(SocketError error) {
        switch (error) {
            case SocketError.ConnectionReset:
            case SocketError.ConnectionAborted:
            case SocketError.Shutdown:
                return "the connection was reset";
            case SocketError.ConnectionRefused:
                return "connection refused";
            case SocketError.TimedOut:
                return "timed out";
            default:
                return error.ToString();
        }
    }
}

// From here on: the program that shows it.

static class Program {
    static volatile bool interrupted;

    static int Main(string[] args) {
        if (args.Length != 2 && (args.Length != 4 || args[2] != "--check")) return Fail("usage: HOST PORT [--check ROUNDS]");
        var client = new TickwireClient(args[0], int.Parse(args[1]));
        client.Connected += () => Console.WriteLine("connected");
        client.Disconnected += reason => Tell(client, "disconnected: " + reason);
        client.ConnectFailed += reason => Tell(client, "cannot connect: " + reason);
        return args.Length == 2 ? Demo(client, args) : new Check(client, int.Parse(args[3])).Run();
    }

    static void Tell(TickwireClient client, string what) {
        Console.WriteLine(what);
        if (client.RetryIn >= 0) Console.WriteLine("trying again in {0:0.00} s", client.RetryIn);
    }

    static int Demo(TickwireClient client, string[] args) {
        Console.CancelKeyPress += (sender, e) => { e.Cancel = true; interrupted = true; };
        Console.WriteLine("connecting to {0}:{1}; Ctrl-C ends it", args[0], args[1]);
        client.Message += bytes =>
            Console.WriteLine("got:  " + System.Text.Encoding.UTF8.GetString(bytes.Array, bytes.Offset, bytes.Count));
        var clock = Stopwatch.StartNew();
        double nextHello = 0;
        int number = 0;
        while (!interrupted) {
            client.Update();
            if (client.IsConnected && clock.Elapsed.TotalSeconds >= nextHello) {
                nextHello = clock.Elapsed.TotalSeconds + 1;
                string text = "hello " + ++number;
                if (client.Send(System.Text.Encoding.UTF8.GetBytes(text))) Console.WriteLine("sent: " + text);
            }
            client.Flush();
            Thread.Sleep(1000 / 60); // a game would do its frame's work here
        }
        client.Close();
        client.Update();
        return 0;
    }

    public static int Fail(string problem) {
        Console.Error.WriteLine("error: " + problem);
        return 1;
    }
}

/// <summary>What `--check` does, and how much it allocates meanwhile.</summary>
sealed class Check {
    const int Special = 5, Small = 500, Large = 600, Messages = Special + Small + Large;
    readonly TickwireClient client;
    readonly int rounds;
    readonly byte[] pattern, sent, wanted;
    int sending, received, bytes, done, result = -1;
    long allocated;
    bool isLate;

    public Check(TickwireClient client, int rounds) {
        this.client = client;
        this.rounds = rounds;
        client.RetryMin = 0.02;
        client.RetryMax = 0.2;
        pattern = new byte[client.FrameMax];
        for (int i = 0; i < pattern.Length; i++) pattern[i] = (byte)(i * 31 + i / 251);
        sent = new byte[client.FrameMax];
        wanted = new byte[client.FrameMax];
        client.Connected += Begin;
        client.Message += Receive;
        client.Disconnected += reason => { if (done == rounds) result = 0; };
    }

    public int Run() {
        if (client.Send(sent)) return Program.Fail("it is not connected yet");
        while (result < 0) {
            client.Update();
            while (client.IsConnected && sending < Messages && client.Send(Make(sending, sent))) sending++;
            if (client.IsConnected && sending < Messages && !isLate) {
                isLate = true;
                Console.WriteLine("send queue full: the rest follows");
            }
            client.Flush();
            Thread.Sleep(1);
        }
        return result;
    }

    void Begin() {
        if (client.Send(new byte[client.FrameMax + 1])) result = Program.Fail("it took what is larger than the limit");
        sending = received = bytes = 0;
        isLate = false;
    }

    void Receive(ArraySegment<byte> message) {
        // What comes first makes room for itself (the runtime compiles it); what comes then is to allocate nothing.
        if (received == Special + Small / 2) allocated = GC.GetAllocatedBytesForCurrentThread();
        if (received == Messages || !AreEqual(message, Make(received, wanted))) {
            result = Program.Fail("message " + received + " is not what was sent");
            return;
        }
        bytes += message.Count;
        if (++received < Messages) return;
        allocated = GC.GetAllocatedBytesForCurrentThread() - allocated;
        Console.WriteLine("round {0} ok: {1} messages, {2} bytes", ++done, received, bytes);
        Console.WriteLine("allocated meanwhile: {0} bytes", allocated);
        if (done == rounds) client.Close();
    }

    // Every size that is special, small ones in a row, and more than all the buffers on the way hold. A message's first
    // bytes are its number, so that a wrong order shows too.
    ArraySegment<byte> Make(int number, byte[] to) {
        int size = number == 0 ? 0 : number == 1 ? 1 : number == 2 ? 100 : number == 3 ? 1000 : client.FrameMax;
        if (number >= Special && number < Special + Small) size = (number - Special) % 50;
        Buffer.BlockCopy(pattern, 0, to, 0, size);
        for (int i = 0; i < 4 && i < size; i++) to[i] = (byte)(number >> (24 - 8 * i));
        return new ArraySegment<byte>(to, 0, size);
    }

    static bool AreEqual(ArraySegment<byte> one, ArraySegment<byte> other) {
        if (one.Count != other.Count) return false;
        for (int i = 0; i < one.Count; i++) {
            if (one.Array[one.Offset + i] != other.Array[other.Offset + i]) return false;
        }
        return true;
    }
}
