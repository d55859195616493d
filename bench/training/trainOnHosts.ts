/** Trains in real tabs. Each tab has its own browser on its own test host. */
import { launchBrowser, type Browser } from '../../launcher/browser/browser.ts';
import type { Io } from '../../launcher/io.ts';
import type { EngineEvent } from '../../src/protocol/events.ts';
import { parseJob } from '../../src/spec/job.ts';
import type { Hosts } from '../world/world.ts';
import { trainInBrowsers } from './trainInBrowsers.ts';

interface TrainOnHostsOptions {
  hosts: Hosts;
  /** Folder with MNIST's files. */
  data: string;
  /** Fields of the job, except its data. */
  fields: Record<string, unknown>;
  /** Whether the run is elastic, so that the order of ranks may change. */
  isElastic: boolean;
}

/** Trains in one tab per host; see {@link trainInBrowsers}. */
export async function trainOnHosts(
  { hosts, data, fields, isElastic }: TrainOnHostsOptions,
  io: Io,
  onevent: (event: EngineEvent, i: number) => boolean,
): Promise<void> {
  const job = parseJob({ ...fields, data: { kind: 'url', url: '/data/' } });
  const { executables, address } = hosts;
  const launch = (tab: number): Promise<Browser> => launchBrowser({ remote: true, executable: executables[tab]! });
  await trainInBrowsers({ tabs: executables.length, launch, address, remote: true, data, job, isElastic }, io, onevent);
}
