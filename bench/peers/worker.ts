/** The worker of a library in `bench peers`: opens the library and takes steps. */
import { answerCalls } from '../world/calls.ts';
import { BATCHES, type OpenArgs, type Peer, type Problem, type TabPeer, type Turn } from './args.ts';

/** Loads only the library that is measured: the others would change TensorFlow.js's kernels. */
const OPEN: Record<TabPeer, (args: OpenArgs) => Promise<Peer>> = {
  peergrad: openOwn,
  threads: openOwn,
  jaxjs: async (args) => {
    // With shared memory, jax-js computes with a thread for each core.
    Reflect.deleteProperty(globalThis, 'SharedArrayBuffer');
    return (await import('./jaxjs.ts')).openJax(args);
  },
  tfjs: async (args) => (await import('./tfjs.ts')).openTensorflow(args),
};

async function openOwn(args: OpenArgs): Promise<Peer> {
  return (await import('./peergrad.ts')).openPeergrad(args);
}

let peer: Peer;
let taken = 0;

answerCalls({
  open: async (args: OpenArgs): Promise<Problem | null> => {
    peer = await OPEN[args.peer](args);
    return (await peer.problem?.()) ?? null;
  },
  turn: async ({ steps }: { steps: number }): Promise<Turn> => {
    const losses: number[] = [];
    const startedAt = performance.now();
    for (let step = 0; step < steps; step++) losses.push(await peer.step(taken++ % BATCHES));
    return { ms: (performance.now() - startedAt) / steps, losses };
  },
});
