/** Trains in real tabs. Each tab has its own browser on its own test host. */
import { closeBrowser, launchBrowser } from '../../launcher/browser/browser.ts';
import { DIST } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { openTabs } from '../../launcher/browser/tabs.ts';
import { startSignaling } from '../../signaling/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { parseJob } from '../../src/spec/job.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';
import type { Hosts } from '../world/world.ts';

interface TrainOnHostsOptions {
  hosts: Hosts;
  /** Folder with MNIST's files. */
  data: string;
  /** Fields of the job, except its data. */
  fields: Record<string, unknown>;
  /** Whether the run is elastic, so that the order of ranks may change. */
  isElastic: boolean;
}

/**
 * Trains in one tab per host. At first, tab i is rank i.
 *
 * @param onevent receives each event and the index of its tab. The run ends when `onevent` returns
 * true, or after the final step.
 * @throws (rejects) PeergradError if a tab fails.
 */
export async function trainOnHosts(
  { hosts, data, fields, isElastic }: TrainOnHostsOptions,
  io: Io,
  onevent: (event: EngineEvent, i: number) => boolean,
): Promise<void> {
  const tabs = hosts.executables.length;
  const server = await startSignaling({ host: hosts.address, dist: DIST, data });
  const job = parseJob({ ...fields, data: { kind: 'url', url: '/data/' } });
  const room = server.createRoom({ job, startAt: tabs, nodes: isElastic ? { min: tabs, max: tabs } : null });
  const names = Array.from({ length: tabs }, (_, i) => `tab-${i}`);
  const browsers = await Promise.all(
    hosts.executables.map((executable) => launchBrowser({ remote: true, executable })),
  );
  const done = deferred();
  done.promise.catch(() => {});
  const fail = (tab: string, message: string): void => done.reject(new PeergradError(`${tab}: ${message}`));
  const onTabEvent = (tab: string, event: EngineEvent): void => {
    if (event.type === 'failed') fail(tab, event.message);
    if (onevent(event, names.indexOf(tab)) || event.type === 'finished') done.resolve();
  };
  try {
    await openTabs<EngineEvent>(browsers, {
      tabs: names.map((name, i) => ({ name, url: `${server.urls[0]!}/#${room}?name=${name}&rank=${i}&auto` })),
      remote: true,
      onevent: onTabEvent,
      ondeath: fail,
      onerror: (tab, message) => io.err(`${tab}: ${message}`),
    });
    await done.promise;
  } finally {
    await Promise.all(browsers.map(closeBrowser));
    await server.close();
  }
}
