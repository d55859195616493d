/**
 * The page of a rank. It owns the connections, like the engine's page, and runs the experiments
 * that need no worker.
 */
import { PeerRelayHost } from '../../src/engine/membership/peerRelay.ts';
import { requestTabPort } from '../../src/transport/broker.ts';
import { openPeerConnection } from '../../src/transport/peerLink.ts';
import { BareChannels } from './bareChannels.ts';
import { callWorker } from './calls.ts';
import { ON_PAGES } from './experiments.ts';
import type { Experiment, FromRank, PageRank, RankSetup, TabSignal, ToRank } from './rank.ts';

/** Functions that the process that opened the tab can call. */
interface RankPage {
  /** Starts the rank. Resolves when it is linked to its neighbours. */
  start(setup: RankSetup): Promise<void>;
  receiveSignal(from: number, signal: TabSignal): Promise<void>;
  /** Runs an experiment. Only one may run at a time. */
  run(name: string, args: unknown): Promise<unknown>;
}

declare global {
  interface Window {
    rankPage: RankPage;
    /** bench/world/world.ts defines this function, as the launcher does in its pages. */
    peergradToLauncher: (messages: string) => Promise<void>;
  }
}

const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
const post = (message: ToRank, transfer: Transferable[] = []): void => worker.postMessage(message, transfer);
const sendSignal = (to: number, signal: TabSignal): void =>
  void window.peergradToLauncher(JSON.stringify([{ to, signal }]));
const peers = new PeerRelayHost(openPeerConnection, requestTabPort, (reply, transfer) =>
  post({ type: 'relay', reply }, transfer),
);
let setup: RankSetup;
let channels: BareChannels;

worker.addEventListener('message', ({ data }: MessageEvent<FromRank>) => {
  if (data.type === 'signal') sendSignal(data.to, data.signal);
  else peers.receive(data.request);
});

window.rankPage = {
  async start(given) {
    setup = given;
    channels = new BareChannels(given.rank, sendSignal);
    await callWorker(worker, 'start', given);
  },
  async receiveSignal(from, signal) {
    if (signal.for === 'page') await channels.receiveSignal(from, signal);
    else post({ type: 'signal', from, signal });
  },
  run(name, args) {
    if (!(name in ON_PAGES)) return callWorker(worker, 'run', { name, args });
    const experiment = ON_PAGES[name as keyof typeof ON_PAGES] as Experiment<PageRank, unknown>;
    return experiment({ ...setup, channelTo: (peer) => channels.to(peer) }, args);
  },
};
