/** What can be done to a tab: a function for each kind of fault. */
import { PeergradError } from '../../src/util/errors.ts';
import type { LiveTab, ProcessType } from './liveTab.ts';

/** The page hears of it (`pagehide`) and can say goodbye. */
export async function closeTab({ page }: LiveTab): Promise<void> {
  await Promise.all([page.waitForEvent('close'), page.close({ runBeforeUnload: true })]);
}

/**
 * The page's process is killed: it says nothing any more; its browser closes its connections to
 * servers, not those to peers.
 */
export async function crashTab(tab: LiveTab): Promise<void> {
  const renderers = await tab.processes('renderer');
  const crashed = tab.page.waitForEvent('crash');
  signal(renderers, 'SIGKILL');
  await crashed;
}

/**
 * Page and workers stand still, until the function that it resolves with is called. What reaches
 * their connections waits.
 */
export function freezeTab(tab: LiveTab): Promise<() => void> {
  return stop(tab, 'renderer');
}

/**
 * The process that owns every socket of the browser, WebRTC's too, stands still, until the function
 * that it resolves with is called: page and workers go on without a network.
 */
export function cutTab(tab: LiveTab): Promise<() => void> {
  return stop(tab, 'network.mojom.NetworkService');
}

/**
 * Closes the busiest connection of the tab to another behind its back: a closed RTCPeerConnection
 * tells its own page nothing, and the other side finds the channel closed.
 *
 * @throws (rejects) PeergradError where the tab has no connection.
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
    if (result.value !== true) throw new PeergradError(`${name} has no connection to another tab that could break.`);
  } finally {
    await session.detach();
  }
}

/** Called on an array of all connections of the page. Text, as it runs in the page. */
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
      // It has ended by itself meanwhile.
      if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
    }
  }
}
