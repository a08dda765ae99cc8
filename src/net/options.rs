//! Socket options, as the system calls them.

use std::io;

use socket2::{Socket, TcpKeepalive};

use crate::config::{ListenOptions, SocketOptions};

/// Sets what a listener has for itself; before it is bound.
pub(super) fn prepare_listener(
    socket: &Socket,
    options: &ListenOptions,
    is_ipv6: bool,
) -> io::Result<()> {
    if is_ipv6 {
        socket.set_only_v6(!options.dual_stack)?;
    }
    // On Windows the option means that two sockets may have one port.
    if cfg!(not(windows)) {
        socket.set_reuse_address(options.reuse_address)?;
    }
    #[cfg(unix)]
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    #[cfg(not(unix))]
    if options.reuse_port {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(())
}

/// Sets what a connection's socket is to have; on a listener before it listens, on a client before it connects,
/// since the size of the receive buffer decides the window that TCP offers from the start (tcp(7)).
pub(super) fn prepare(socket: &Socket, options: &SocketOptions, is_ipv6: bool) -> io::Result<()> {
    let SocketOptions { nodelay, keepalive, user_timeout, tos, .. } = options;
    socket.set_tcp_nodelay(*nodelay)?;
    if let Some(keepalive) = keepalive {
        let mut params = TcpKeepalive::new().with_time(keepalive.time);
        if let Some(interval) = keepalive.interval {
            params = params.with_interval(interval);
        }
        if let Some(count) = keepalive.count {
            params = params.with_retries(count);
        }
        socket.set_tcp_keepalive(&params)?;
    }
    if let Some(timeout) = user_timeout {
        set_user_timeout(socket, *timeout)?;
    }
    if let Some(tos) = tos {
        set_tos(socket, *tos, is_ipv6)?;
    }
    prepare_buffers(socket, options)
}

/// The part that local sockets have too.
pub(super) fn prepare_buffers(socket: &Socket, options: &SocketOptions) -> io::Result<()> {
    if let Some(bytes) = options.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn set_user_timeout(socket: &Socket, timeout: std::time::Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(timeout))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn set_user_timeout(_: &Socket, _: std::time::Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
fn set_tos(socket: &Socket, tos: u8, is_ipv6: bool) -> io::Result<()> {
    match is_ipv6 {
        true => socket.set_tclass_v6(tos.into()),
        false => socket.set_tos_v4(tos.into()),
    }
}

#[cfg(not(unix))]
fn set_tos(_: &Socket, _: u8, _: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
