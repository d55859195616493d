/** Tabs in a browser of their own, as on one laptop of a class. */
import { launchBrowser, type Browser } from '../../launcher/browser/browser.ts';
import { openTabs } from '../../launcher/browser/tabs.ts';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { TimeoutError } from '../../src/util/errors.ts';
import { killTree, memoryOfTree } from './processes.ts';

/** Receives the tabs' events, deaths and errors. */
type TabListener = Pick<Parameters<typeof openTabs>[1], 'onevent' | 'ondeath' | 'onerror'>;

/** Milliseconds until a killed browser must have ended, also while all cores are busy. */
const KILL_MS = 30_000;

export class TabGroup {
  /** Names of the tabs; none before they are opened. */
  names: readonly string[] = [];
  readonly #browser: Browser;
  readonly #pid: number;
  readonly #listener: TabListener;

  private constructor(browser: Browser, pid: number, listener: TabListener) {
    this.#browser = browser;
    this.#pid = pid;
    this.#listener = listener;
  }

  /** Starts the browser. @throws (rejects) PeergradError if it does not start. */
  static async launch(listener: TabListener): Promise<TabGroup> {
    const browser = await launchBrowser({ backend: 'wasm' });
    const cdp = await browser.newBrowserCDPSession();
    const { processInfo } = await cdp.send('SystemInfo.getProcessInfo');
    await cdp.detach();
    return new TabGroup(browser, processInfo.find(({ type }) => type === 'browser')!.id, listener);
  }

  /**
   * Opens all tabs of the group, which join the room at `url` by themselves.
   *
   * @throws (rejects) PeergradError if the page cannot be loaded.
   */
  async open(names: readonly string[], url: string): Promise<void> {
    this.names = names;
    const tabs = names.map((name) => ({ name, url: `${url}?name=${name}&auto` }));
    // Pupils see their pages.
    await openTabs([this.#browser], { tabs, isSeen: true, ...this.#listener });
  }

  /** Returns the memory of all processes of the browser, in bytes. */
  memory(): number {
    return memoryOfTree(this.#pid);
  }

  /**
   * Kills the browser, as if the laptop had lost power: the tabs send no farewell. Resolves when
   * the browser has ended.
   */
  async kill(): Promise<void> {
    if (!this.#browser.isConnected()) return;
    const ended = createDeferred();
    this.#browser.on('disconnected', () => ended.resolve());
    killTree(this.#pid);
    const late = (): Error => new TimeoutError(`Process ${this.#pid} did not end within ${KILL_MS / 1000} s.`);
    await withinDeadline(systemClock, KILL_MS, ended.promise, late);
  }
}
