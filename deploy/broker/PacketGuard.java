package ilyama;

import io.netty.handler.codec.mqtt.MqttConnectMessage;
import io.netty.handler.codec.mqtt.MqttMessage;
import org.apache.activemq.artemis.core.protocol.mqtt.MQTTInterceptor;
import org.apache.activemq.artemis.spi.core.protocol.RemotingConnection;

/** Refuses packets that no client of the platform may send; the broker then ends the connection. */
public final class PacketGuard implements MQTTInterceptor {

  @Override
  public boolean intercept(MqttMessage message, RemotingConnection connection) {
    return switch (message.fixedHeader().messageType()) {
      case PUBLISH -> !message.fixedHeader().isRetain();
      case CONNECT -> mayConnect((MqttConnectMessage) message, connection);
      default -> true;
    };
  }

  /** A will is a publish too. A listener with client certificates binds the client id here. */
  private boolean mayConnect(MqttConnectMessage message, RemotingConnection connection) {
    return !message.variableHeader().isWillRetain();
  }
}
