/** Injects the faults of a tab. There is one function for each kind. */
import { PeergradError } from '../../src/util/errors.ts';
import type { LiveTab, ProcessType } from './liveTab.ts';

/** Closes the tab. The page receives `pagehide` and can leave its room. */
export async function closeTab({ page }: LiveTab): Promise<void> {
  await Promise.all([page.waitForEvent('close'), page.close({ runBeforeUnload: true })]);
}

/**
 * Kills the page's process, so that it sends no more messages. The browser closes the page's
 * connections to servers, but not those to peers.
 */
export async function crashTab(tab: LiveTab): Promise<void> {
  const renderers = await tab.processes('renderer');
  const crashed = tab.page.waitForEvent('crash');
  signal(renderers, 'SIGKILL');
  await crashed;
}

/**
 * Stops page and workers until the returned function is called. Meanwhile the browser buffers data
 * that arrives for them.
 */
export function freezeTab(tab: LiveTab): Promise<() => void> {
  return stop(tab, 'renderer');
}

/**
 * Stops the process that has all sockets of the browser (also those of WebRTC) until the returned
 * function is called. Meanwhile page and workers continue without a network.
 */
export function cutTab(tab: LiveTab): Promise<() => void> {
  return stop(tab, 'network.mojom.NetworkService');
}

/**
 * Closes the tab's busiest connection to another tab. The tab does not notice it, because a closed
 * RTCPeerConnection fires no event on its own page. The other page sees that the channel closes.
 *
 * @throws (rejects) PeergradError if the tab has no connection.
 */
export async function breakEdge({ name, page }: LiveTab): Promise<void> {
  const session = await page.context().newCDPSession(page);
  try {
    const { result: prototype } = await session.send('Runtime.evaluate', { expression: 'RTCPeerConnection.prototype' });
    const { objects } = await session.send('Runtime.queryObjects', { prototypeObjectId: prototype.objectId! });
    const { result } = await session.send('Runtime.callFunctionOn', {
      objectId: objects.objectId!,
      functionDeclaration: CLOSE_BUSIEST,
      awaitPromise: true,
      returnByValue: true,
    });
    if (result.value !== true)
      throw new PeergradError(`${name} has no connection to another tab, so none can be broken.`);
  } finally {
    await session.detach();
  }
}

/** Source of a function that runs in the page, with an array of all its connections as `this`. */
const CLOSE_BUSIEST = `async function () {
  const sent = async (connection) => {
    const statistics = [...(await connection.getStats()).values()];
    return statistics.reduce((bytes, { type, bytesSent }) => bytes + (type === 'transport' ? bytesSent : 0), 0);
  };
  const open = this.filter(({ connectionState }) => connectionState === 'connected');
  const bytes = await Promise.all(open.map(sent));
  open[bytes.indexOf(Math.max(...bytes))]?.close();
  return open.length > 0;
}`;

async function stop(tab: LiveTab, type: ProcessType): Promise<() => void> {
  const pids = await tab.processes(type);
  signal(pids, 'SIGSTOP');
  return () => signal(pids, 'SIGCONT');
}

function signal(pids: readonly number[], name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch (error) {
      // The process has already ended.
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
    }
  }
}
