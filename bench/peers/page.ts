/** The page of `bench peers`. Libraries train in workers of their own, as tabs do. */
import { callWorker } from '../world/calls.ts';
import type { TabPeer } from './args.ts';

declare global {
  /** Calls a function of a library's worker. */
  var callPeer: (peer: TabPeer, name: string, args: unknown) => Promise<unknown>;
}

const workers = new Map<TabPeer, Worker>();

globalThis.callPeer = (peer, name, args) => {
  const worker = workers.get(peer) ?? new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
  workers.set(peer, worker);
  return callWorker(worker, name, args);
};
