/** Starts and closes browsers, with WebGPU on a GPU, with WebGPU in software, or without WebGPU. */
import { existsSync, readdirSync } from 'node:fs';
import type { Browser } from 'playwright-core';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { errorMessageOf, PeergradError, TimeoutError, UsageError } from '../../src/util/errors.ts';
import { SOFTWARE_RENDERER } from '../../src/util/gpuAdapter.ts';
import { ensureBrowser } from './findBrowser.ts';
import { createProfile, removeAbandonedProfiles, removeProfile } from './profiles.ts';

export type { Browser };

export const GPU_MODES = ['auto', 'software', 'hardware'] as const;
export type GpuMode = (typeof GPU_MODES)[number];

export const BACKEND_MODES = ['auto', 'webgpu', 'wasm'] as const;
/**
 * `auto`: WebGPU if there is a GPU, otherwise WebAssembly. On a CPU, WebAssembly is faster than
 * WebGPU in software (docs/SERVERS.md).
 */
export type BackendMode = (typeof BACKEND_MODES)[number];

export interface LaunchOptions {
  /**
   * Path of the browser. Default: PEERGRAD_BROWSER, else an installed browser, else a browser that
   * the launcher installs.
   */
  executable?: string;
  /** Backend of the pages. Default: `webgpu`. */
  backend?: BackendMode;
  /** Device that WebGPU uses. Default: `auto`, which is a GPU if there is one. */
  gpu?: GpuMode;
  headed?: boolean;
  /** Flags to pass to the browser, in addition to those that `gpu` needs. */
  flags?: readonly string[];
  /**
   * URL of a page on which the launcher tries WebGPU; the page must be a secure context. Without
   * this URL, `auto` uses a GPU if the GPU's device file exists.
   */
  probeUrl?: string;
  /** Whether pages accept every certificate. Without a user, nobody could confirm an exception. */
  anyCertificate?: boolean;
  /**
   * Whether the server is on another machine. If it is on this machine, tabs may also connect to
   * each other over the loopback interface, so a machine without a network can train.
   */
  remote?: boolean;
}

const SOFTWARE = [
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  // This flag turns off the filling of workgroup memory with zeros, which takes four fifths of
  // SwiftShader's compile time: 15 s for four tabs on two cores. No kernel needs it, because all
  // write this memory before they read it. The flag does not change any bit of the losses.
  '--enable-dawn-features=disable_workgroup_init',
];
/**
 * On Linux, Chromium uses a GPU for WebGPU only through Vulkan. A headless Chromium also needs
 * Vulkan's own surface to be disabled.
 */
const HARDWARE_LINUX = [
  '--use-angle=vulkan',
  '--enable-features=Vulkan',
  '--disable-vulkan-surface',
  '--enable-unsafe-webgpu',
  '--ignore-gpu-blocklist',
];
/** With these flags, pages find no adapter even if there is a GPU, and compute in WebAssembly. */
const NO_GPU = ['--disable-gpu'];
/**
 * Chromium's features to disable: those that Playwright disables, and two more (WebUIOmnibox*).
 * If these two are enabled, the browser prepares pages of its address bar in separate processes for
 * each window. That takes a quarter of the time for opening a tab and training a few steps.
 * Playwright's features are repeated here, because Chromium uses only the last of several such
 * lists.
 */
const FEATURES_OFF = [
  'AvoidUnnecessaryBeforeUnloadCheckSync',
  'DestroyProfileOnBrowserClose',
  'HttpsUpgrades',
  'HttpsFirstBalancedModeAutoEnable',
  'LensOverlay',
  'MediaRouter',
  'PaintHolding',
  'ThirdPartyStoragePartitioning',
  'AvoidCorsURLLoaderRestartOnRedirect',
  'TcpPortRandomizationWin',
  'OptimizationHints',
  'NetworkTimeServiceQuerying',
  'AimEnabled',
  'PreconnectToSearch',
  'msForceBrowserSignIn',
  'msEdgeUpdateLaunchServicesPreferredVersion',
  'WebUIOmniboxPopup',
  'WebUIOmniboxAimPopup',
];
/**
 * The largest number of tabs in one browser if WebGPU runs in software. SwiftShader needs about
 * 7000 memory mappings per device, because it has a stack for every thread group in flight. Linux
 * allows 65530 mappings per process (vm.max_map_count), and with 8 devices the GPU process crashes.
 */
export const TABS_PER_SOFTWARE_GPU = 4;
/**
 * Milliseconds to wait for an adapter. Without a working Vulkan driver, `requestAdapter` never
 * resolves.
 */
const ADAPTER_MS = 15_000;
export const VIEWPORT = { width: 1280, height: 800 };
/** Milliseconds to wait until a browser has closed. */
const CLOSE_MS = 10_000;

/**
 * Starts a browser.
 *
 * @throws (rejects) PeergradError if it does not start, UsageError if options contradict each
 *   other.
 */
export async function launchBrowser(options: LaunchOptions = {}): Promise<Browser> {
  return (await launch(options)).browser;
}

/**
 * Starts as many browsers as `tabs` tabs need: usually one; if WebGPU runs in software, one for
 * every {@link TABS_PER_SOFTWARE_GPU} tabs.
 *
 * @throws (rejects) the errors of {@link launchBrowser}. After an error, no browser is left
 *   running.
 */
export async function launchBrowsers(tabs: number, options: LaunchOptions): Promise<Browser[]> {
  const { browser: first, again } = await launch(options);
  if (again === null) return [first];
  const browsers = [first];
  try {
    while (browsers.length * TABS_PER_SOFTWARE_GPU < tabs) browsers.push(await again());
    return browsers;
  } catch (error) {
    await Promise.all(browsers.map(closeBrowser));
    throw error;
  }
}

/**
 * Starts the first browser. If WebGPU runs in software, the result has a function `again` that
 * starts another browser with the same flags. Otherwise `again` is `null`.
 */
async function launch(options: LaunchOptions): Promise<{ browser: Browser; again: (() => Promise<Browser>) | null }> {
  const { backend = 'webgpu', gpu = 'auto', probeUrl } = options;
  if (backend === 'wasm' && gpu !== 'auto') {
    throw new UsageError(`--backend wasm computes without a GPU. Remove --gpu ${gpu}, or choose --backend webgpu.`);
  }
  const executable = options.executable ?? (await ensureBrowser(undefined, console.error));
  const withoutGpu = async () => ({ browser: await start(executable, options, NO_GPU), again: null });
  if (backend === 'wasm') return withoutGpu();
  if (gpu === 'hardware' || (gpu === 'auto' && hasGpu())) {
    const browser = await start(executable, options, hardwareFlags());
    if (gpu === 'hardware' || probeUrl === undefined || (await hasAdapter(browser, probeUrl))) {
      return { browser, again: null };
    }
    // The GPU has a device file, but Chromium cannot use any driver for it. This is so in many
    // virtual machines.
    await browser.close();
  }
  if (backend === 'auto' && gpu === 'auto') return withoutGpu();
  const again = (): Promise<Browser> => start(executable, options, SOFTWARE);
  return { browser: await again(), again };
}

const closesLate = (): Error => new TimeoutError(`The browser did not close within ${CLOSE_MS / 1000} s.`);

/**
 * Closes a browser. If it does not close in time, for example because its GPU process hangs, it is
 * killed, so that its tabs leave their room.
 */
export async function closeBrowser(browser: Browser): Promise<void> {
  try {
    await withinDeadline(systemClock, CLOSE_MS, browser.close(), closesLate);
  } catch {
    // If killing the browser hangs, too, the browser ends with this process.
    await withinDeadline(systemClock, CLOSE_MS, killBrowser(browser), closesLate).catch(() => {});
  }
}

/** Kills a browser and all its tabs with SIGKILL, without any clean-up. */
export async function killBrowser(browser: Browser): Promise<void> {
  if (!browser.isConnected()) return;
  const ended = createDeferred();
  browser.on('disconnected', () => ended.resolve());
  const cdp = await browser.newBrowserCDPSession();
  const { processInfo } = await cdp.send('SystemInfo.getProcessInfo');
  // The browser's main process is killed first, because it would restart the other processes.
  const inOrder = [...processInfo].sort((a, b) => Number(b.type === 'browser') - Number(a.type === 'browser'));
  for (const { id } of inOrder) {
    try {
      process.kill(id, 'SIGKILL');
    } catch {
      // The process has already ended with the browser.
    }
  }
  await ended.promise;
}

function hardwareFlags(): string[] {
  return process.platform === 'linux' ? HARDWARE_LINUX : [];
}

function hasGpu(): boolean {
  if (process.platform !== 'linux') return true;
  if (existsSync('/dev/nvidia0')) return true;
  return existsSync('/dev/dri') && readdirSync('/dev/dri').some((name) => name.startsWith('renderD'));
}

async function start(executable: string, options: LaunchOptions, gpuFlags: string[]): Promise<Browser> {
  const { headed = false, remote = false, anyCertificate = false, flags = [] } = options;
  const args = [...gpuFlags, ...flags, `--disable-features=${FEATURES_OFF.join()}`];
  if (anyCertificate) args.push('--ignore-certificate-errors');
  if (!remote) args.push('--allow-loopback-in-peer-connection');
  // In containers, /dev/shm is too small for Chromium. As root, Chromium does not start with its
  // sandbox.
  if (process.platform === 'linux') args.push('--disable-dev-shm-usage');
  if (process.getuid?.() === 0) args.push('--no-sandbox');
  // The user's flags come last, because Chromium uses the last of several values of a flag.
  args.push(...(process.env['PEERGRAD_BROWSER_FLAGS'] ?? '').split(/\s+/).filter((flag) => flag !== ''));
  const [{ chromium }] = await Promise.all([import('playwright-core'), removeAbandonedProfiles()]);
  // In a private profile, every access to a stored file takes milliseconds.
  const profile = createProfile();
  try {
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: executable,
      headless: !headed,
      args,
      viewport: VIEWPORT,
      ignoreHTTPSErrors: anyCertificate,
      // The launcher handles Ctrl-C.
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    return context.browser()!.on('disconnected', () => removeProfile(profile));
  } catch (error) {
    removeProfile(profile);
    throw new PeergradError(`The browser ${executable} did not start: ${whyNotStarted(errorMessageOf(error))}`);
  }
}

/**
 * Returns the reason in one line. Playwright's message is a page long and contains the browser's
 * output.
 */
function whyNotStarted(message: string): string {
  const library = /error while loading shared libraries: \S+/.exec(message)?.[0];
  if (library !== undefined) return `${library} is missing.`;
  if (/Missing X server|\$DISPLAY/.test(message)) return 'there is no display. Remove --headed.';
  return message.split('\n', 1)[0]!.replace(/^browserType\.launchPersistentContext: /, '');
}

/** Resolves with `true` if the browser finds a GPU adapter that is not a software renderer. */
async function hasAdapter(browser: Browser, url: string): Promise<boolean> {
  const page = await browser.newPage();
  try {
    await page.goto(url);
    // The code is passed as text. If it were a function, the transpiler would add calls of helpers
    // that do not exist in the page. If the answer is null, the adapter is requested again;
    // src/util/gpuAdapter.ts says why.
    return await page.evaluate<boolean>(`Promise.race([
      navigator.gpu.requestAdapter().then((first) => first ?? navigator.gpu.requestAdapter()).then((adapter) => {
        if (adapter === null || adapter.info.isFallbackAdapter) return false;
        const { vendor, architecture, description } = adapter.info;
        return !${String(SOFTWARE_RENDERER)}.test([vendor, architecture, description].join(' '));
      }),
      new Promise((resolve) => setTimeout(resolve, ${ADAPTER_MS}, false)),
    ])`);
  } catch {
    return false;
  } finally {
    await page.close();
  }
}
