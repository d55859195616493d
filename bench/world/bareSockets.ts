/** WebSockets over a relay, without frames and encryption. Benchmarks compare links with them. */
import { BareChannel } from './bareChannels.ts';

/** @param relay URL of a bare relay (`bench/signaling/bareRelay.ts`). */
export function bareSockets(relay: string, rank: number): (peer: number) => Promise<BareChannel> {
  const opened = new Map<number, Promise<BareChannel>>();
  const open = async (peer: number): Promise<BareChannel> => {
    const url = `${relay}/${Math.min(rank, peer)}-${Math.max(rank, peer)}`;
    const socket = Object.assign(new WebSocket(url), { bufferedAmountLowThreshold: 0, onbufferedamountlow: null });
    // Senders never wait: a browser takes any number of bytes, and does not report that they have
    // left.
    const channel = new BareChannel(Object.defineProperty(socket, 'bufferedAmount', { value: 0 }));
    await new Promise((resolve) => socket.addEventListener('open', resolve));
    return channel;
  };
  return (peer) => {
    const channel = opened.get(peer) ?? open(peer);
    opened.set(peer, channel);
    return channel;
  };
}
