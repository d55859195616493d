/** A training run of a benchmark in real tabs, each in a browser on a test host of its own. */
import { closeBrowser, launchBrowser } from '../launcher/browser/browser.ts';
import { DIST } from '../launcher/build.ts';
import type { Io } from '../launcher/io.ts';
import { openTabs } from '../launcher/browser/tabs.ts';
import { startSignaling } from '../signaling/index.ts';
import type { EngineEvent } from '../src/protocol/events.ts';
import { parseJob } from '../src/spec/job.ts';
import { deferred } from '../src/util/deferred.ts';
import { PeergradError } from '../src/util/errors.ts';
import type { Hosts } from './world/world.ts';

interface TrainOnHostsOptions {
  hosts: Hosts;
  /** MNIST's files. */
  data: string;
  /** Of the job, but for its data. */
  fields: Record<string, unknown>;
  /** Whether ranks may come and go, and so their order may change. */
  isElastic: boolean;
}

/**
 * Tab i, on the i-th host, is rank i at first.
 *
 * @param onevent hears what tab `i` tells; the run is over once it returns true, or with its last
 *   step.
 * @throws (rejects) PeergradError where a tab fails.
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
  const hear = (tab: string, event: EngineEvent): void => {
    if (event.type === 'failed') fail(tab, event.message);
    if (onevent(event, names.indexOf(tab)) || event.type === 'finished') done.resolve();
  };
  try {
    await openTabs<EngineEvent>(browsers, {
      tabs: names.map((name, i) => ({ name, url: `${server.urls[0]!}/#${room}?name=${name}&rank=${i}&auto` })),
      ...{ remote: true, onevent: hear, ondeath: fail, onerror: (tab, message) => io.err(`${tab}: ${message}`) },
    });
    await done.promise;
  } finally {
    await Promise.all(browsers.map(closeBrowser));
    await server.close();
  }
}
