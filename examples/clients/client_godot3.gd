# Two clients for Godot 3 (tested with 3.2.3): copy the class you need into a script of your own.
#
# - Client, on StreamPeerTCP: tickwire's default framing, and so Telepathy's: a 4-byte big-endian length, then the payload.
# - PacketClient, on PacketPeerStream, whose length is little-endian: the server has to say so (`Framing::GODOT`). It is
#   shorter, and Godot knows less about it: see its comment.
#
# By itself this file is a little program that shows them, headless:
#
#     cargo run --example echo                                             # in another terminal
#     godot3-server -s examples/clients/client_godot3.gd 127.0.0.1 7777
#
#     cargo run --example echo -- --framing godot
#     godot3-server -s examples/clients/client_godot3.gd 127.0.0.1 7777 --packets
#
# It says hello once a second and shows what comes back; stop the server and start it again to see what happens then.
# With `--check N` it sends messages of many sizes, checks every byte that comes back, N times on N connections.
extends SceneTree


# Make one, connect its signals, and call update() from _process(). Nothing blocks (but for looking up a host name) and
# nothing runs by itself. After "disconnected" and "failed" it tries again after retry_in seconds, unless close() was called.
class Client extends Reference:
	signal connected()            # then come its messages, in order, and then exactly one
	signal disconnected(reason)   # whoever closed
	signal message(payload)       # a PoolByteArray, yours to keep
	signal failed(reason)         # an attempt to connect has come to nothing

	const BYTES_PER_UPDATE = 256 * 1024 # so that a flood cannot hold up a frame

	var frame_max := 16384 # the largest payload, both ways
	var queue_max := 1 << 20 # how many bytes may wait to be sent
	var retry_min := 0.5 # seconds
	var retry_max := 30.0
	var timeout := 10.0 # of an attempt to connect
	var is_online := false
	var retry_in := -1.0 # negative: no attempt is planned

	var _host := ""
	var _port := 0
	var _tcp: StreamPeerTCP = null
	var _out := PoolByteArray()
	var _header := StreamPeerBuffer.new()
	var _length := -1 # of the message that has begun; -1: its header has not come yet
	var _part := PoolByteArray() # of the header or the message, as much as has come
	var _attempts := 0 # in a row without a message
	var _deadline := 0.0
	var _next_try := 0.0
	var _wanted := true
	var _closed_by_us := false

	func _init(host: String, port: int):
		_host = host
		_port = port
		_header.big_endian = true
		randomize()

	# Queues a message. False if it is refused, whole: not connected, larger than frame_max, or too much is waiting already
	# (try again in a later frame, or leave it out).
	func send(payload: PoolByteArray) -> bool:
		if not is_online or payload.size() > frame_max or _out.size() + 4 + payload.size() > queue_max:
			return false
		_header.clear()
		_header.put_u32(payload.size())
		_out.append_array(_header.data_array)
		_out.append_array(payload)
		return true

	# How many bytes wait to be sent.
	func queued() -> int:
		return _out.size()

	# Sends what the socket takes now. update() does it too: call it after the last send() of a frame.
	func flush() -> void:
		while is_online and _out.size() > 0:
			var result = _tcp.put_partial_data(_out) # an error is told by update()
			if result[0] != OK or result[1] == 0:
				return
			_out = _out.subarray(result[1], -1) if result[1] < _out.size() else PoolByteArray()

	# Ends it, in order and for good; the next update() tells. What the socket does not take at once is lost.
	func close() -> void:
		_wanted = false
		retry_in = -1.0
		if is_online:
			flush()
			_closed_by_us = true
		_drop()

	func update() -> void:
		if _closed_by_us:
			_closed_by_us = false
			emit_signal("disconnected", "closed by us")
		if _tcp == null:
			if _wanted and _now() >= _next_try:
				_begin()
		elif not is_online:
			_finish()
		if is_online:
			flush()
			_receive()

	func _begin() -> void:
		retry_in = -1.0
		_deadline = _now() + timeout
		_tcp = StreamPeerTCP.new()
		if _tcp.connect_to_host(_host, _port) != OK:
			_lose("cannot begin to connect")

	func _finish() -> void:
		match _tcp.get_status():
			StreamPeerTCP.STATUS_CONNECTED:
				_tcp.set_no_delay(true)
				is_online = true
				_begun()
				emit_signal("connected")
			StreamPeerTCP.STATUS_CONNECTING:
				if _now() >= _deadline:
					_lose("timed out")
			_:
				_lose("refused or unreachable") # Godot does not tell which

	func _begun() -> void:
		pass

	func _receive() -> void:
		var budget := BYTES_PER_UPDATE
		while is_online and budget > 0:
			# Never waits for a whole header or message: Godot sees an end only when all that came before has been read.
			var missing := (4 if _length < 0 else _length) - _part.size()
			var result = _tcp.get_partial_data(missing)
			_part.append_array(result[1])
			budget -= result[1].size()
			if result[0] != OK or result[1].size() == 0:
				if not _is_alive():
					_end(_length >= 0 or _part.size() > 0)
				return
			if result[1].size() == missing:
				if _length < 0:
					_read_header()
				else:
					_take()

	func _read_header() -> void:
		_header.data_array = _part
		_header.seek(0)
		_length = _header.get_u32()
		_part = PoolByteArray()
		if _length > frame_max:
			# Nothing is allocated for it, and what follows has no meaning.
			_lose("frame too large: %d bytes, limit %d" % [_length, frame_max])
		elif _length == 0:
			_take()

	func _take() -> void:
		var payload := _part
		_part = PoolByteArray()
		_length = -1
		_attempts = 0 # a server that works: the next wait starts small again
		emit_signal("message", payload)

	func _is_alive() -> bool:
		return _tcp.get_status() == StreamPeerTCP.STATUS_CONNECTED

	func _end(is_cut_off: bool) -> void:
		if _tcp.get_status() == StreamPeerTCP.STATUS_ERROR:
			_lose("the connection was reset")
		elif is_cut_off:
			_lose("the connection was cut off within a message")
		else:
			_lose("the server closed the connection")

	# Ends a connection or an attempt; the next one comes after a while, a longer one each time. The chance in it keeps a
	# thousand clients from coming back in the same moment.
	func _lose(reason: String) -> void:
		var what := "disconnected" if is_online else "failed"
		_drop()
		retry_in = min(retry_max, retry_min * pow(2, min(_attempts, 20))) * rand_range(0.5, 1.0)
		_attempts += 1
		_next_try = _now() + retry_in
		emit_signal(what, reason)

	func _drop() -> void:
		if _tcp != null:
			_tcp.disconnect_from_host()
		_tcp = null
		is_online = false
		_out = PoolByteArray()
		_part = PoolByteArray()
		_length = -1

	func _now() -> float:
		return OS.get_ticks_usec() / 1e6


# The same on Godot's PacketPeerStream. Its limits: send() blocks while the socket takes nothing; there are no empty
# messages; a message that was cut off is not told from an end in order; and one that is larger than frame_max is never
# noticed: the connection just stays silent.
class PacketClient extends Client:
	var _packets: PacketPeerStream = null

	func _init(host: String, port: int).(host, port):
		pass

	func send(payload: PoolByteArray) -> bool:
		if not is_online or payload.size() == 0 or payload.size() > frame_max:
			return false
		return _packets.put_packet(payload) == OK

	func _begun() -> void:
		_packets = PacketPeerStream.new()
		_packets.input_buffer_max_size = frame_max + 4
		_packets.output_buffer_max_size = frame_max + 4
		_packets.stream_peer = _tcp

	func _receive() -> void:
		var budget := BYTES_PER_UPDATE
		while is_online and budget > 0:
			# Looked at first: all that has come before an end is read after it.
			var is_alive := _is_alive()
			if _packets.get_available_packet_count() == 0:
				if not is_alive:
					_end(false)
				return
			_part = _packets.get_packet()
			budget -= 4 + _part.size()
			_take()

	func _drop() -> void:
		_packets = null
		._drop()


# From here on: the program that shows them.

var client: Client
var rounds := 0
var number := 0
var next_hello := 0.0
var pattern := PoolByteArray()
var sizes := []
var sending := 0
var received := 0
var bytes := 0
var done := 0
var is_late := false


func _initialize():
	var args := Array(OS.get_cmdline_args())
	args = args.slice(args.find("-s") + 2, args.size() - 1)
	var has_packets := args.has("--packets")
	args.erase("--packets")
	if args.size() != 2 and (args.size() != 4 or args[2] != "--check"):
		return _fail("usage: -s client_godot3.gd HOST PORT [--packets] [--check ROUNDS]")
	client = PacketClient.new(args[0], int(args[1])) if has_packets else Client.new(args[0], int(args[1]))
	client.connect("connected", self, "_on_connected")
	client.connect("disconnected", self, "_on_disconnected")
	client.connect("failed", self, "_on_failed")
	if args.size() == 4:
		client.connect("message", self, "_on_check")
		rounds = int(args[3])
		client.retry_min = 0.02
		client.retry_max = 0.2
		_make_messages(has_packets)
	else:
		client.connect("message", self, "_on_message")
		print("connecting to %s:%s; Ctrl-C ends it" % [args[0], args[1]])
	Engine.target_fps = 500 if rounds > 0 else 60


func _idle(_delta):
	client.update()
	if rounds > 0:
		_send_more()
	elif client.is_online and OS.get_ticks_usec() / 1e6 >= next_hello:
		next_hello = OS.get_ticks_usec() / 1e6 + 1
		number += 1
		if client.send(("hello %d" % number).to_utf8()):
			print("sent: hello %d" % number)
	client.flush()


func _on_connected():
	print("connected")
	sending = 0
	received = 0
	bytes = 0
	is_late = false


func _on_disconnected(reason):
	_tell("disconnected: " + reason)
	if rounds > 0 and done == rounds:
		quit(0)


func _on_failed(reason):
	_tell("cannot connect: " + reason)


func _tell(what):
	print(what)
	if client.retry_in >= 0:
		print("trying again in %.2f s" % client.retry_in)


func _on_message(payload):
	print("got:  " + payload.get_string_from_utf8())


func _fail(problem):
	printerr("error: " + problem)
	quit(1)


# What `--check` sends: every size that is special, small ones in a row, and (of Client) more than all the buffers on the
# way hold. A message's first bytes are its number, so that a wrong order shows too.
func _make_messages(has_packets):
	for i in range(client.frame_max):
		pattern.append((i * 31 + i / 251) & 255)
	sizes = [1, 100, 1000, client.frame_max] if has_packets else [0, 1, 100, 1000, client.frame_max]
	for i in range(500):
		sizes.append(1 + i % 50 if has_packets else i % 50)
	for _i in range(600):
		sizes.append(client.frame_max)


func _message(index) -> PoolByteArray:
	var size = sizes[index]
	var payload := PoolByteArray()
	for i in range(min(4, size)):
		payload.append((index >> (24 - 8 * i)) & 255)
	if size > 4:
		payload.append_array(pattern.subarray(4, size - 1))
	return payload


func _send_more():
	if client.is_online and sending == 0 and client.send(_too_large()):
		_fail("it took what is larger than the limit")
	# put_packet blocks, and so would the echo server: PacketClient has few messages under way at a time.
	var under_way = 4 if client is PacketClient else sizes.size()
	while client.is_online and sending < sizes.size() and sending - received < under_way:
		if not client.send(_message(sending)):
			if not is_late:
				is_late = true
				print("send queue full: the rest follows")
			return
		sending += 1


func _too_large() -> PoolByteArray:
	var payload := PoolByteArray()
	payload.resize(client.frame_max + 1)
	return payload


func _on_check(payload):
	if received == sizes.size() or payload != _message(received):
		return _fail("message %d is not what was sent" % received)
	received += 1
	bytes += payload.size()
	if received == sizes.size():
		done += 1
		print("round %d ok: %d messages, %d bytes" % [done, received, bytes])
		if done == rounds:
			client.close()
