/**
 * Entry of the worker that owns a tab's connection to the signaling server and sends its
 * heartbeats. It never computes, so its heartbeats are on time.
 */
import { systemClock } from '../../util/clock.ts';
import { pulseVerdict } from '../../util/activity.ts';
import { Heartbeats, nameOfThisWorker, pulseChannel, ThreadWatch } from './heartbeats.ts';
import type { FromPulseWorker, ToPulseWorker } from './pulseSocket.ts';

/** The text of the server's answer to a heartbeat. */
const ANSWER = JSON.stringify({ type: 'heartbeat' });

const post = (message: FromPulseWorker): void => globalThis.postMessage(message);
const thread = new ThreadWatch();
let socket: WebSocket | null = null;
let hangs = false;
const toPage = pulseChannel(nameOfThisWorker());
const heartbeats = new Heartbeats({
  clock: systemClock,
  today: Date.now,
  send: (message) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    post({ type: 'ping' });
  },
  pulse: (intervalMs) => {
    const pulse = thread.pulse(intervalMs);
    const verdict = pulseVerdict(pulse);
    if (verdict === 'works' || (verdict === 'hangs' && !hangs)) toPage.postMessage(pulse);
    hangs = verdict === 'hangs';
    return pulse;
  },
  bytes: () => thread.bytes,
  onlost: () => close(),
});

function open(url: string): void {
  const opened = new WebSocket(url);
  socket = opened;
  opened.addEventListener('open', () => post({ type: 'opened' }));
  opened.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
    heartbeats.answered();
    // Answers to heartbeats are not passed on, because they would queue up while the thread
    // computes.
    if (data !== ANSWER) post({ type: 'message', text: String(data) });
  });
  opened.addEventListener('close', () => over());
}

function over(): void {
  heartbeats.stop();
  post({ type: 'closed' });
}

/**
 * Closes the connection, and tells the thread immediately that it is closed. Over a dead
 * connection, the closing handshake itself would end only with a timeout.
 */
function close(): void {
  socket?.close();
  over();
}

globalThis.addEventListener('message', ({ data }: MessageEvent<ToPulseWorker>) => {
  thread.heard(data.type === 'activity' ? data.report : undefined);
  switch (data.type) {
    case 'open':
      return open(data.url);
    case 'send':
      if (socket?.readyState === WebSocket.OPEN) socket.send(data.text);
      return;
    case 'heartbeats':
      return heartbeats.start(data.intervalMs);
    case 'check':
      return heartbeats.check();
    case 'close':
      heartbeats.stop();
      return socket?.close();
    case 'activity':
      return;
    default:
      data satisfies never;
  }
});
post({ type: 'loaded' });
