package ilyama;

import org.apache.activemq.artemis.api.core.Message;
import org.apache.activemq.artemis.core.persistence.StorageManager;
import org.apache.activemq.artemis.core.server.ActiveMQServer;
import org.apache.activemq.artemis.core.server.MessageReference;
import org.apache.activemq.artemis.core.server.ServerConsumer;
import org.apache.activemq.artemis.core.server.ServerSession;
import org.apache.activemq.artemis.core.server.plugin.ActiveMQServerPlugin;
import org.apache.activemq.artemis.core.transaction.Transaction;

/**
 * Keeps messages of one client, also those in flight together, in the order in which it sent them.
 *
 * <p>What has to wait for the journal, the queueing of a message and its way to a subscriber, waits in the
 * context of the thread that happens to do it, and any thread of a pool does: a message whose thread has
 * nothing to wait for overtakes the one before it. In the context of its session there is one line.
 */
public final class MessageOrder implements ActiveMQServerPlugin {

  private volatile ActiveMQServer server;
  private volatile StorageManager storage;

  @Override
  public void registered(ActiveMQServer registeredAt) {
    server = registeredAt;
    storage = registeredAt.getStorageManager();
  }

  @Override
  public void beforeSend(
      ServerSession session, Transaction transaction, Message message, boolean direct, boolean noAutoCreateQueue) {
    waitInLineOf(session);
  }

  @Override
  public void beforeDeliver(ServerConsumer consumer, MessageReference reference) {
    waitInLineOf(server.getSessionByID(consumer.getSessionID()));
  }

  /** What the thread does next has nothing to do with this session. */
  @Override
  public void afterDeliver(ServerConsumer consumer, MessageReference reference) {
    storage.clearContext();
  }

  private void waitInLineOf(ServerSession session) {
    if (session != null) {
      storage.setContext(session.getSessionContext());
    }
  }
}
