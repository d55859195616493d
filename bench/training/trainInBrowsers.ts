/** Trains in real tabs, each in its own browser, until the run is over. */
import { closeBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { openTabs } from '../../launcher/browser/tabs.ts';
import { DIST } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { startSignaling } from '../../signaling/index.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { JobSpec } from '../../src/spec/job.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';

interface TrainInBrowsersOptions {
  /** A browser for each tab. They are closed after the run. */
  browsers: readonly Browser[];
  /** Address on which the server listens. */
  address: string;
  /** Whether the tabs are on other hosts than this process. */
  remote: boolean;
  /** Folder with MNIST's files. */
  data?: string;
  job: JobSpec;
  /** Whether the run is elastic, so that the order of ranks may change. */
  isElastic: boolean;
}

/**
 * Trains in one tab per browser. At first, tab i is rank i.
 *
 * @param onevent receives each event and the index of its tab. The run ends when `onevent` returns
 * true, or after the final step.
 * @throws (rejects) PeergradError if a tab fails.
 */
export async function trainInBrowsers(
  { browsers, address, remote, data, job, isElastic }: TrainInBrowsersOptions,
  io: Io,
  onevent: (event: EngineEvent, i: number) => boolean,
): Promise<void> {
  const tabs = browsers.length;
  const server = await startSignaling({ host: address, dist: DIST, ...(data !== undefined && { data }) });
  const room = server.createRoom({ job, startAt: tabs, nodes: isElastic ? { min: tabs, max: tabs } : null });
  const names = browsers.map((_, i) => `tab-${i}`);
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
      remote,
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
