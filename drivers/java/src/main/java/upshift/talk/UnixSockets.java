package upshift.talk;

import java.net.InetAddress;
import java.net.Socket;
import javax.net.SocketFactory;

/** pgjdbc's {@code socketFactory}; {@code socketFactoryArg} is the socket's path. */
public final class UnixSockets extends SocketFactory {
  private final String path;

  public UnixSockets(String path) {
    this.path = path;
  }

  @Override
  public Socket createSocket() {
    return new UnixSocket(path);
  }

  @Override
  public Socket createSocket(String host, int port) {
    throw new UnsupportedOperationException("the driver connects by itself");
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress local, int localPort) {
    return createSocket(host, port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port) {
    return createSocket("", port);
  }

  @Override
  public Socket createSocket(InetAddress host, int port, InetAddress local, int localPort) {
    return createSocket("", port);
  }
}
