package upshift.talk;

import com.mysql.cj.conf.PropertyKey;
import com.mysql.cj.conf.PropertySet;
import com.mysql.cj.protocol.StandardSocketFactory;
import java.net.Socket;

/** Connector/J's {@code socketFactory}; the option {@code path} is the socket's. */
public final class MySqlSockets extends StandardSocketFactory {
  @Override
  protected Socket createSocket(PropertySet options) {
    return new UnixSocket(options.getStringProperty(PropertyKey.PATH).getValue());
  }
}
