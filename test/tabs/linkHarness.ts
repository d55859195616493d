/** In a tab: one end of a simple-peer link. The two tabs signal over a BroadcastChannel, as they share a browser. */
import type { PeerSignal } from '../../src/protocol/control.ts';
import { connectPeer } from '../../src/transport/peerLink.ts';
import { LINK_CASES } from '../transport/linkCompliance.ts';

declare global {
  interface Window {
    /** Begins one end of a case over a fresh connection; it listens for the other end's signals once this returns. */
    openEnd: (name: string, end: 'alice' | 'bob') => void;
    /** Resolves once the end that was begun has kept the contract. */
    endDone: () => Promise<void>;
  }
}

window.openEnd = (name, end) => {
  const linkCase = LINK_CASES.find((candidate) => candidate.name === name)!;
  const channel = new BroadcastChannel(name);
  const attempt = connectPeer({
    initiator: end === 'alice',
    iceServers: [],
    onsignal: (signal) => channel.postMessage(signal),
  });
  channel.onmessage = ({ data }: MessageEvent<PeerSignal>) => attempt.signal(data);
  const run = async (): Promise<void> => {
    const link = await attempt.link;
    try {
      await linkCase[end](link);
    } finally {
      link.close();
      channel.close();
    }
  };
  const done = run();
  window.endDone = () => done;
};
