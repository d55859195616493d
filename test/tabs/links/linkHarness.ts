/**
 * A page for tests: one end of a link over simple-peer or over a message port. Two tabs of one
 * browser open it, and exchange signals over a BroadcastChannel.
 */
import { PeerRelayHost, type PeerRelayReply } from '../../../src/engine/membership/peerRelay.ts';
import type { PeerSignal } from '../../../src/protocol/linkSignal.ts';
import { requestTabPort } from '../../../src/transport/broker.ts';
import { connectPeer, openPeerConnection, type PeerAttempt } from '../../../src/transport/peerLink.ts';
import { connectTab } from '../../../src/transport/tabLink.ts';
import { createDeferred } from '../../../src/util/deferred.ts';
import { runEnd, type End } from './linkEnd.ts';
import type { FromLinkWorker, ToLinkWorker } from './linkWorker.ts';

declare global {
  interface Window {
    /**
     * Starts one end of a test case over a new connection. When this function returns, the tab is
     * ready for the other tab's signals.
     */
    openEnd: (name: string, end: End, by: keyof typeof WAYS) => void;
    /** Resolves once this end has passed the test case. Rejects if it fails. */
    endDone: () => Promise<void>;
    /**
     * Closes the link. Call it only when the other end has passed, because the other end may still
     * receive data.
     */
    closeEnd: () => void;
  }
}

/** One end of a running test case. */
interface RunningEnd {
  done: Promise<void>;
  close: () => void;
}

type Way = (name: string, end: End, channel: BroadcastChannel) => RunningEnd;

const WAYS = {
  'WebRTC, on the page': (name, end, channel) =>
    onPage(name, end, channel, connectPeer({ initiator: end === 'alice', iceServers: [], onsignal: postTo(channel) })),
  'WebRTC, in a worker': (name, end, channel) => inWorker(name, end, channel),
  'WebRTC, in a worker by way of the page': (name, end, channel) =>
    inWorker(name, end, channel, { canTransfer: false, connections: 1 }),
  'four WebRTC connections': (name, end, channel) =>
    inWorker(name, end, channel, { canTransfer: true, connections: 4 }),
  'a port': (name, end, channel) =>
    onPage(name, end, channel, connectTab(requestTabPort, { initiator: end === 'alice', key: name })),
} satisfies Record<string, Way>;

function postTo(channel: BroadcastChannel): (signal: PeerSignal) => void {
  return (signal) => channel.postMessage(signal);
}

function onPage(name: string, end: End, channel: BroadcastChannel, attempt: PeerAttempt): RunningEnd {
  channel.onmessage = ({ data }: MessageEvent<PeerSignal>) => attempt.signal(data);
  return { done: runEnd(name, end, attempt.link), close: () => attempt.abort() };
}

/** @param options.canTransfer whether the browser can transfer data channels. */
function inWorker(
  name: string,
  end: End,
  channel: BroadcastChannel,
  { canTransfer, connections } = { canTransfer: true, connections: 1 },
): RunningEnd {
  const worker = new Worker(new URL('./linkWorker.ts', import.meta.url), { type: 'module' });
  const post = (message: ToLinkWorker, transfer: Transferable[] = []): void => worker.postMessage(message, transfer);
  const reply = (message: PeerRelayReply, transfer: Transferable[]): void => {
    if (message.type === 'peer-channel' && !canTransfer) throw new DOMException('not transferable', 'DataCloneError');
    post({ type: 'relay', reply: message }, transfer);
  };
  const host = new PeerRelayHost((options) => openPeerConnection({ ...options, connections }), requestTabPort, reply);
  const done = createDeferred();
  worker.addEventListener('message', ({ data }: MessageEvent<FromLinkWorker>) => {
    if (data.type === 'relay') host.receive(data.request);
    else if (data.type === 'signal') postTo(channel)(data.signal);
    else if (data.failure === null) done.resolve();
    else done.reject(new Error(data.failure));
  });
  channel.onmessage = ({ data }: MessageEvent<PeerSignal>) => post({ type: 'signal', signal: data });
  post({ type: 'open', name, end, connections });
  const close = (): void => {
    host.close();
    worker.terminate();
  };
  return { done: done.promise, close };
}

window.openEnd = (name, end, by) => {
  const channel = new BroadcastChannel(name);
  const running = WAYS[by](name, end, channel);
  window.endDone = () => running.done;
  window.closeEnd = () => {
    running.close();
    channel.close();
  };
};
