/** In a tab: one end of a simple-peer link. The two tabs signal over a BroadcastChannel, as they share a browser. */
import type { PeerSignal } from '../../src/protocol/control.ts';
import { connectPeer } from '../../src/transport/peerLink.ts';
import { LINK_CASES } from '../transport/linkCompliance.ts';

declare global {
  interface Window {
    /** Runs one end of a case over a fresh connection; resolves once it has kept the contract. */
    runCase: (name: string, end: 'alice' | 'bob') => Promise<void>;
  }
}

window.runCase = async (name, end) => {
  const linkCase = LINK_CASES.find((candidate) => candidate.name === name)!;
  const channel = new BroadcastChannel(name);
  const attempt = connectPeer({
    initiator: end === 'alice',
    iceServers: [],
    onsignal: (signal) => channel.postMessage(signal),
  });
  channel.onmessage = ({ data }: MessageEvent<PeerSignal>) => attempt.signal(data);
  const link = await attempt.link;
  try {
    await linkCase[end](link);
  } finally {
    link.close();
    channel.close();
  }
};
