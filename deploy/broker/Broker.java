package ilyama;

import java.nio.file.Path;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;

/** The embedded broker: starts from the broker.xml that it is given, stops cleanly when it is told to. */
public final class Broker {

  private Broker() {}

  public static void main(String[] arguments) throws Exception {
    EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
    broker.setConfigResourcePath(Path.of(arguments[0]).toUri().toString());
    broker.setSecurityManager(new ActiveMQJAASSecurityManager("password", "certificate"));
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(broker)));
    try {
      broker.start();
    } catch (Exception error) {
      error.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  private static void stop(EmbeddedActiveMQ broker) {
    try {
      broker.stop();
    } catch (Exception error) {
      error.printStackTrace();
    }
  }
}
