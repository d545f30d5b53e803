package ilyama;

import io.netty.handler.codec.mqtt.MqttConnectMessage;
import io.netty.handler.codec.mqtt.MqttMessage;
import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.netty.handler.codec.mqtt.MqttSubscribeMessage;
import org.apache.activemq.artemis.core.protocol.mqtt.MQTTInterceptor;
import org.apache.activemq.artemis.spi.core.protocol.RemotingConnection;

/** Refuses packets that no client of the platform may send; the broker then ends the connection. */
public final class PacketGuard implements MQTTInterceptor {

  @Override
  public boolean intercept(MqttMessage message, RemotingConnection connection) {
    return switch (message.fixedHeader().messageType()) {
      case PUBLISH -> mayPublish((MqttPublishMessage) message);
      case SUBSCRIBE -> maySubscribe((MqttSubscribeMessage) message);
      case CONNECT -> mayConnect((MqttConnectMessage) message, connection);
      default -> true;
    };
  }

  private boolean mayPublish(MqttPublishMessage message) {
    return !message.fixedHeader().isRetain() && isCarried(message.variableHeader().topicName());
  }

  private boolean maySubscribe(MqttSubscribeMessage message) {
    return message.payload().topicSubscriptions().stream()
        .allMatch(subscription -> isCarried(subscription.topicFilter()));
  }

  /** A will is a publish too. A listener with client certificates binds the client id here. */
  private boolean mayConnect(MqttConnectMessage message, RemotingConnection connection) {
    String willTopic = message.payload().willTopic();
    return !message.variableHeader().isWillRetain() && (willTopic == null || isCarried(willTopic));
  }

  /**
   * Whether Artemis delivers messages of this topic, and under its very name. Two colons name a queue:
   * such a publish would be acknowledged and reach nobody. A backslash can arrive as several.
   */
  private static boolean isCarried(String topic) {
    return !topic.contains("::") && !topic.contains("\\");
  }
}
