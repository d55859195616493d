/** Trains in real tabs, each in its own browser. */
import { closeBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { openTabs } from '../../launcher/browser/tabs.ts';
import { DIST } from '../../launcher/build.ts';
import type { Io } from '../../launcher/io.ts';
import { startSignaling } from '../../signaling/index.ts';
import { NO_ICE, type IceOptions } from '../../signaling/ice.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import type { JobSpec } from '../../src/spec/job.ts';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';

interface TrainInBrowsersOptions {
  tabs: number;
  /** Starts the browser of a tab. All browsers are closed at the end. */
  launch: (tab: number) => Promise<Browser>;
  /** Address on which the server listens. */
  address: string;
  /** Whether the tabs are on other hosts than this process. */
  remote: boolean;
  /** Folder that the server serves at /data/. */
  data?: string;
  /** TURN server of the tabs. Default: none. */
  ice?: IceOptions;
  job: JobSpec;
  /** Whether the run is elastic, so that the order of ranks may change. */
  isElastic: boolean;
}

/**
 * Trains in one tab per browser. At first, tab i is rank i.
 *
 * @param onevent receives each event and the index of its tab. The run ends when `onevent` returns
 *   true. Tabs finish at different times, so `finished` of one tab does not end it.
 * @throws (rejects) PeergradError if a tab fails, or the server or a browser does not start.
 */
export async function trainInBrowsers(
  { tabs, launch, address, remote, data, ice = NO_ICE, job, isElastic }: TrainInBrowsersOptions,
  io: Io,
  onevent: (event: EngineEvent, i: number) => boolean,
): Promise<void> {
  const names = Array.from({ length: tabs }, (_, i) => `tab-${i}`);
  const done = deferred();
  done.promise.catch(() => {});
  const fail = (tab: string, message: string): void => done.reject(new PeergradError(`${tab}: ${message}`));
  const onTabEvent = (tab: string, event: EngineEvent): void => {
    if (event.type === 'failed') fail(tab, event.message);
    if (onevent(event, names.indexOf(tab))) done.resolve();
  };
  const server = await startSignaling({ host: address, dist: DIST, ice, ...(data !== undefined && { data }) });
  const browsers: Browser[] = [];
  try {
    for (let tab = 0; tab < tabs; tab++) browsers.push(await launch(tab));
    const room = server.createRoom({ job, startAt: tabs, nodes: isElastic ? { min: tabs, max: tabs } : null });
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
