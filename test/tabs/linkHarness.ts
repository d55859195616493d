/** In a tab: one end of a link, by simple-peer or a port. The two tabs signal over a BroadcastChannel, as they share a browser. */
import type { PeerSignal } from '../../src/protocol/control.ts';
import { askForPort } from '../../src/transport/broker.ts';
import { connectPeer, type PeerAttempt } from '../../src/transport/peerLink.ts';
import { connectTab } from '../../src/transport/tabLink.ts';
import { LINK_CASES } from '../transport/linkCompliance.ts';

declare global {
  interface Window {
    /** Begins one end of a case over a fresh connection; it listens for the other end's signals once this returns. */
    openEnd: (name: string, end: 'alice' | 'bob', by: keyof typeof CONNECTORS) => void;
    /** Resolves once the end that was begun has kept the contract. */
    endDone: () => Promise<void>;
  }
}

type Connect = (isAlice: boolean, channel: BroadcastChannel) => PeerAttempt;

const CONNECTORS = {
  WebRTC: (initiator, channel) =>
    connectPeer({ initiator, iceServers: [], onsignal: (signal) => channel.postMessage(signal) }),
  'a port': (initiator, { name }) => connectTab(askForPort, { initiator, key: name }),
} satisfies Record<string, Connect>;

window.openEnd = (name, end, by) => {
  const linkCase = LINK_CASES.find((candidate) => candidate.name === name)!;
  const channel = new BroadcastChannel(name);
  const attempt = CONNECTORS[by](end === 'alice', channel);
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
