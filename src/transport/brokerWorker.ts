/**
 * Entry of the SharedWorker that connects tabs of one browser. Each client sends a key; two clients
 * with the same key each receive one end of a new channel. Only pages of one origin in one browser
 * profile share the worker. Messages over the ports do not pass through the worker.
 */
import { systemClock } from '../util/clock.ts';

/**
 * How long a key waits for its second tab. This is longer than a tab waits for its port. A key must
 * expire, because its tab may disappear without a message.
 */
const WAITING_MS = 30_000;

const waiting = new Map<unknown, MessagePort>();

globalThis.addEventListener('connect', (event) => {
  const client = (event as MessageEvent).ports[0]!;
  client.onmessage = ({ data: key }: MessageEvent<unknown>) => {
    const first = waiting.get(key);
    waiting.delete(key);
    if (first) return join(first, client);
    waiting.set(key, client);
    systemClock.after(WAITING_MS, () => {
      if (waiting.get(key) === client) waiting.delete(key);
    });
  };
});

function join(...clients: [MessagePort, MessagePort]): void {
  const { port1, port2 } = new MessageChannel();
  clients[0].postMessage(null, [port1]);
  clients[1].postMessage(null, [port2]);
}
