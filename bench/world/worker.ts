/** The worker of a rank. It has links, a mesh and a process group, as in a training run. */
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createRelayedConnector } from '../../src/engine/membership/peerRelay.ts';
import { connectTab } from '../../src/transport/tabLink.ts';
import { answerCalls } from './calls.ts';
import { IN_WORKERS } from './experiments.ts';
import { linksOfRank, type RankLinks } from './links.ts';
import type { Experiment, FromRank, RankSetup, ToRank, WorkerRank } from './rank.ts';

const post = (message: FromRank): void => globalThis.postMessage(message);
const relay = createRelayedConnector((request) => post({ type: 'relay', request }));
let own: RankLinks;
let rank: WorkerRank;

answerCalls({
  async start(setup: RankSetup): Promise<void> {
    own = linksOfRank(
      setup,
      relay.connect,
      (options) => connectTab(relay.requestTabPort, options),
      (to, attempt, signal) => post({ type: 'signal', to, signal: { for: 'worker', attempt, signal } }),
    );
    const { mesh } = await own.links.open();
    rank = { group: new ProcessGroup(mesh), spareLinkTo: own.spareLinkTo };
  },
  run({ name, args }: { name: keyof typeof IN_WORKERS; args: unknown }): Promise<unknown> {
    return (IN_WORKERS[name] as Experiment<WorkerRank, unknown>)(rank, args);
  },
});

globalThis.addEventListener('message', ({ data }: MessageEvent<ToRank>) => {
  if (data.type === 'signal') own.receiveSignal(data.from, data.signal.attempt, data.signal.signal);
  else if (data.type === 'relay') relay.receive(data.reply);
});
