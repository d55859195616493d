/**
 * Starts Firefox, controlled by WebDriver BiDi. It computes WebGPU in software with Mesa's
 * lavapipe, a WebGPU implementation that differs from Chromium's.
 */
import { accessSync, constants, readdirSync } from 'node:fs';
import path from 'node:path';
import puppeteer, { type Browser } from 'puppeteer-core';
import { UsageError } from '../src/util/errors.ts';

const START_MS = 60_000;

/**
 * WebDriver listens for new workers. While it does, one of about fifty workers that another worker
 * creates never starts, and blocks its creator (Firefox 153). No test needs these events.
 */
const UNREGISTER_WORKER_LISTENER = `ChromeUtils.importESModule(
  'chrome://remote/content/shared/js-process-actors/WebDriverWorkerListenerActor.sys.mjs',
).unregisterWebDriverWorkerListenerActor()`;

const DRIVERS = '/usr/share/vulkan/icd.d';
const NAMES = ['firefox', 'firefox-esr'];

const WITH_WEBGPU = {
  'dom.webgpu.enabled': true,
  'dom.webgpu.workers.enabled': true,
  'gfx.webgpu.ignore-blocklist': true,
};
/** Lets tabs connect on a machine without a network. */
const LOOPBACK = { 'media.peerconnection.ice.loopback': true };

/** The part of a BiDi browser that puppeteer does not declare. */
interface WithConnection {
  connection: { send(method: string, params: object): Promise<{ result: unknown }> };
}

export type Preferences = Record<string, boolean | number | string>;

interface Installed {
  firefox: string;
  /** Path of lavapipe's driver manifest. Its name contains the processor's architecture. */
  driver: string;
}

/** The paths of Firefox and lavapipe; `null` if one is not installed. */
export function findFirefox(): Installed | null {
  const firefox = (process.env['PATH'] ?? '')
    .split(path.delimiter)
    .flatMap((folder) => NAMES.map((name) => path.join(folder, name)))
    .find(isProgram);
  const driver = fileNames(DRIVERS).find((name) => /^lvp_icd\b.*\.json$/.test(name));
  return firefox === undefined || driver === undefined ? null : { firefox, driver: path.join(DRIVERS, driver) };
}

/**
 * Starts Firefox with WebGPU on lavapipe, or with the given `preferences`.
 *
 * @param commandMs deadline of a command in milliseconds.
 * @throws (rejects) UsageError if Firefox or lavapipe is not installed.
 */
export async function launchFirefox(commandMs: number, preferences: Preferences = WITH_WEBGPU): Promise<Browser> {
  const installed = findFirefox();
  if (!installed) throw new UsageError('Install firefox-esr and mesa-vulkan-drivers to use Firefox.');
  const { firefox, driver } = installed;
  const browser = await puppeteer.launch({
    browser: 'firefox',
    executablePath: firefox,
    headless: true,
    args: ['--remote-allow-system-access'],
    timeout: START_MS,
    protocolTimeout: commandMs,
    env: { ...process.env, VK_DRIVER_FILES: driver, VK_ICD_FILENAMES: driver },
    extraPrefsFirefox: { ...LOOPBACK, ...preferences },
  });
  try {
    await stopListeningForWorkers(browser);
  } catch (error) {
    await browser.close();
    throw error;
  }
  return browser;
}

/**
 * Removes WebDriver's listener for new workers, if this version of Firefox has it.
 *
 * @throws (rejects) if Firefox has no access to its own windows by WebDriver.
 */
async function stopListeningForWorkers(browser: Browser): Promise<void> {
  const { connection } = browser as unknown as WithConnection;
  const { result } = await connection.send('browsingContext.getTree', { 'moz:scope': 'chrome' });
  const [{ context }] = (result as { contexts: [{ context: string }] }).contexts;
  await connection.send('script.evaluate', {
    target: { context },
    expression: UNREGISTER_WORKER_LISTENER,
    awaitPromise: false,
  });
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function fileNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
