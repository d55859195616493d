/**
 * A connection to the signaling server whose WebSocket and heartbeats belong to a small worker
 * (`pulseWorker.ts`). So a thread that computes for minutes stays connected, and its heartbeats say
 * what it does.
 */
import type { Pulse } from '../../protocol/room.ts';
import type { ThreadActivity, ActivityReport } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import { createDeferred } from '../../util/deferred.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { nameOfThisWorker, pulseChannel } from './heartbeats.ts';
import type { OpenSocket, SignalingSocket } from './signalingClient.ts';

/** Milliseconds in which the worker must load. If it does not, a usual WebSocket is opened. */
const LOAD_TIMEOUT_MS = 10_000;

/** Computing thread to worker. */
export type ToPulseWorker =
  | { type: 'open'; url: string }
  | { type: 'send'; text: string }
  /** The thread's activity. It is sent after each change, and as the answer to `ping`. */
  | { type: 'activity'; report: ActivityReport }
  | { type: 'heartbeats'; intervalMs: number }
  | { type: 'check' }
  | { type: 'close' };
/** Worker to computing thread. */
export type FromPulseWorker =
  /** The worker is loaded. */
  | { type: 'loaded' }
  | { type: 'opened' }
  | { type: 'message'; text: string }
  /** The worker asks for an answer. */
  | { type: 'ping' }
  | { type: 'closed' };

/**
 * Returns a function that opens such connections. If the browser refuses the worker, the function
 * opens usual WebSockets, and the caller's thread sends the heartbeats.
 */
export function createPulseSocketOpener(activity: ThreadActivity, clock: Clock): OpenSocket {
  return async (url) => {
    let worker: Worker;
    try {
      // Bundlers recognise this expression as a worker. The worker gets the name of this thread.
      worker = new Worker(new URL('./pulseWorker.ts', import.meta.url), { type: 'module', name: nameOfThisWorker() });
    } catch {
      return new WebSocket(url);
    }
    const loaded = createDeferred();
    worker.addEventListener('message', () => loaded.resolve(), { once: true });
    worker.addEventListener('error', () => loaded.reject(new Error('The worker could not be loaded.')));
    try {
      await withinDeadline(
        clock,
        LOAD_TIMEOUT_MS,
        loaded.promise,
        () => new Error('The worker was not loaded in time.'),
      );
    } catch {
      worker.terminate();
      return new WebSocket(url);
    }
    return new PulseSocket(worker, url, activity);
  };
}

class PulseSocket extends EventTarget implements SignalingSocket {
  readonly OPEN = WebSocket.OPEN;
  readyState: WebSocket['readyState'] = WebSocket.CONNECTING;
  readonly heartbeats = {
    start: (intervalMs: number): void => this.#post({ type: 'heartbeats', intervalMs }),
    check: (): void => this.#post({ type: 'check' }),
  };
  readonly #worker: Worker;
  readonly #activity: ThreadActivity;
  readonly #report = (report: ActivityReport): void => this.#post({ type: 'activity', report });

  constructor(worker: Worker, url: URL, activity: ThreadActivity) {
    super();
    this.#worker = worker;
    this.#activity = activity;
    worker.onmessage = ({ data }: MessageEvent<FromPulseWorker>) => this.#receive(data);
    activity.listeners.add(this.#report);
    this.#report(activity.report);
    this.#post({ type: 'open', url: url.href });
  }

  send(text: string): void {
    this.#post({ type: 'send', text });
  }

  close(): void {
    if (this.readyState < WebSocket.CLOSING) this.readyState = WebSocket.CLOSING;
    this.#post({ type: 'close' });
  }

  #post(message: ToPulseWorker): void {
    this.#worker.postMessage(message);
  }

  #receive(message: FromPulseWorker): void {
    switch (message.type) {
      case 'loaded':
        return;
      case 'opened':
        if (this.readyState === WebSocket.CONNECTING) this.readyState = WebSocket.OPEN;
        this.dispatchEvent(new Event('open'));
        return;
      case 'message':
        this.dispatchEvent(new MessageEvent('message', { data: message.text }));
        return;
      case 'ping':
        return this.#report(this.#activity.report);
      case 'closed':
        this.readyState = WebSocket.CLOSED;
        this.#activity.listeners.delete(this.#report);
        this.#worker.terminate();
        this.dispatchEvent(new Event('close'));
        return;
      default:
        message satisfies never;
    }
  }
}

/**
 * Calls `onpulse` with pulses of the thread named `name`: while it works, and when it hangs.
 * Returns a function that ends these calls.
 */
export function listenToPulses(name: string, onpulse: (pulse: Pulse) => void): () => void {
  const channel = pulseChannel(name);
  channel.onmessage = ({ data }: MessageEvent<Pulse>) => onpulse(data);
  return () => channel.close();
}
