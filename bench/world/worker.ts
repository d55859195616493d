/** The worker of a rank. It has links, a mesh and a process group, as in a training run. */
import { ProcessGroup } from '../../src/collectives/processGroup.ts';
import { createRelayedConnector } from '../../src/engine/membership/peerRelay.ts';
import { connectTab } from '../../src/transport/tabLink.ts';
import { deferred } from '../../src/util/deferred.ts';
import { errorMessageOf } from '../../src/util/errors.ts';
import { IN_WORKERS } from './experiments.ts';
import { linksOfRank, type RankLinks } from './links.ts';
import type { Experiment, FromRank, RankSetup, ToRank, WorkerRank } from './rank.ts';

const post = (message: FromRank): void => globalThis.postMessage(message);
const relay = createRelayedConnector((request) => post({ type: 'relay', request }));
const started = deferred<WorkerRank>();
let own: RankLinks;

async function start(setup: RankSetup): Promise<void> {
  own = linksOfRank(
    setup,
    relay.connect,
    (options) => connectTab(relay.requestTabPort, options),
    (to, attempt, signal) => post({ type: 'signal', to, signal: { for: 'worker', attempt, signal } }),
  );
  const { mesh } = await own.links.open();
  started.resolve({ ...setup, group: new ProcessGroup(mesh), spareLinkTo: own.spareLinkTo });
  post({ type: 'started' });
}

async function run(name: string, args: unknown): Promise<void> {
  const experiment = IN_WORKERS[name as keyof typeof IN_WORKERS] as Experiment<WorkerRank, unknown>;
  post({ type: 'ran', result: await experiment(await started.promise, args) });
}

const fail = (error: unknown): void => post({ type: 'failed', message: errorMessageOf(error) });

globalThis.addEventListener('message', ({ data }: MessageEvent<ToRank>) => {
  switch (data.type) {
    case 'start':
      start(data).catch(fail);
      return;
    case 'run':
      run(data.name, data.args).catch(fail);
      return;
    case 'signal':
      return own.receiveSignal(data.from, data.signal.attempt, data.signal.signal);
    case 'relay':
      return relay.receive(data.reply);
    default:
      data satisfies never;
  }
});
