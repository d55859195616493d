/**
 * Entry of the SharedWorker that joins tabs of one browser: whoever connects says a key, and the
 * second to say it and the first get a port each, whose other end the other has. Only pages of one
 * origin in one profile of a browser share it. What then goes over the ports does not come by here.
 */
import { systemClock } from '../util/clock.ts';

/**
 * How long a key waits for its second tab: longer than whoever asks, who may have gone without a
 * word.
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
