/** The page of `bench peers`. Libraries train in workers of their own, as tabs do. */
import { PeergradError } from '../../src/util/errors.ts';
import type { TabPeer } from './args.ts';
import type { Answer } from './worker.ts';

declare global {
  /** Calls a function of a library's worker. */
  var callPeer: (peer: TabPeer, name: string, args: unknown) => Promise<unknown>;
}

const workers = new Map<TabPeer, Worker>();

globalThis.callPeer = (peer, name, args) => {
  const worker = workers.get(peer) ?? new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  workers.set(peer, worker);
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve, reject) => {
    worker.addEventListener('error', ({ message }) => reject(new PeergradError(`The worker failed: ${message}.`)));
    port1.addEventListener('message', ({ data }: MessageEvent<Answer>) =>
      'message' in data ? reject(new PeergradError(data.message)) : resolve(data.result),
    );
    port1.start();
    worker.postMessage({ name, args }, [port2]);
  });
};
