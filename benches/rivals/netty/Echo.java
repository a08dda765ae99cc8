import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.LengthFieldBasedFrameDecoder;
import io.netty.handler.codec.LengthFieldPrepender;
import java.net.InetSocketAddress;

/**
 * Netty's echo: one event loop, a length field of four bytes. "read" flushes when a read is complete, "each" flushes
 * each message, "repack" takes a pack apart and puts its messages into a new one.
 */
public final class Echo extends ChannelInboundHandlerAdapter {
    private static final int PAYLOAD_MAX = 64 * 1024;

    private final String mode;

    private Echo(String mode) {
        this.mode = mode;
    }

    public static void main(String[] args) throws Exception {
        String mode = args[0];
        EventLoopGroup loop = new NioEventLoopGroup(1);
        Channel channel = new ServerBootstrap()
            .group(loop, loop)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_BACKLOG, 4096)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(new ChannelInitializer<SocketChannel>() {
                @Override
                protected void initChannel(SocketChannel accepted) {
                    accepted.pipeline().addLast(
                        new LengthFieldBasedFrameDecoder(PAYLOAD_MAX + 4, 0, 4, 0, 4),
                        new LengthFieldPrepender(4),
                        new Echo(mode));
                }
            })
            .bind("127.0.0.1", 0).sync().channel();
        System.out.println("port " + ((InetSocketAddress) channel.localAddress()).getPort());
        channel.closeFuture().sync();
    }

    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
        switch (mode) {
            case "each" -> context.writeAndFlush(message);
            case "repack" -> context.write(repack(context, (ByteBuf) message));
            default -> context.write(message);
        }
    }

    @Override
    public void channelReadComplete(ChannelHandlerContext context) {
        context.flush();
    }

    /** A client that does not read is not read either. */
    @Override
    public void channelWritabilityChanged(ChannelHandlerContext context) {
        context.channel().config().setAutoRead(context.channel().isWritable());
        context.fireChannelWritabilityChanged();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
        context.close();
    }

    private static ByteBuf repack(ChannelHandlerContext context, ByteBuf pack) {
        ByteBuf next = context.alloc().buffer(pack.readableBytes());
        while (pack.isReadable()) {
            int length = pack.readInt();
            next.writeInt(length).writeBytes(pack, length);
        }
        pack.release();
        return next;
    }
}
