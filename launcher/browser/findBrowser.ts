/** Finds Chrome, Chromium or Edge on this machine, or installs Chromium. */
import { spawn } from 'node:child_process';
import { constants, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { PeergradError, UsageError } from '../../src/util/errors.ts';

/** Logs one line to stderr. */
type Log = (line: string) => void;

const NAMES = [
  'google-chrome',
  'google-chrome-stable',
  'chromium',
  'chromium-browser',
  'microsoft-edge',
  'microsoft-edge-stable',
];

const MAC_APPS = ['Google Chrome', 'Chromium', 'Microsoft Edge'];
const WINDOWS_APPS = [
  String.raw`Google\Chrome\Application\chrome.exe`,
  String.raw`Chromium\Application\chrome.exe`,
  String.raw`Microsoft\Edge\Application\msedge.exe`,
];

/**
 * Resolves with the path of the browser to use: that of `--browser`, else PEERGRAD_BROWSER, else an
 * installed browser, else a browser that this function installs.
 *
 * @throws (rejects) UsageError if the given path is not a program, PeergradError if no browser is
 *   found and none can be installed.
 */
export async function ensureBrowser(requested: string | undefined, log: Log): Promise<string> {
  const fromEnv = process.env['PEERGRAD_BROWSER'];
  if (requested !== undefined) return checkProgram(requested, '--browser');
  if (fromEnv !== undefined && fromEnv !== '') return checkProgram(fromEnv, 'PEERGRAD_BROWSER');
  return (await findInstalled()) ?? (await install(log));
}

async function checkProgram(file: string, source: string): Promise<string> {
  if (await isProgram(file)) return file;
  throw new UsageError(`There is no browser at ${file}. Set ${source} to the path of Chrome, Chromium or Edge.`);
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the path of the first browser in the usual locations, or `null`. */
async function findInstalled(): Promise<string | null> {
  const { chromium } = await import('playwright-core');
  for (const file of [...usualPlaces(), chromium.executablePath()]) {
    if (await isProgram(file)) return file;
  }
  return null;
}

function usualPlaces(): string[] {
  const { env, platform } = process;
  if (platform === 'win32') {
    const roots = [env['PROGRAMFILES'], env['PROGRAMFILES(X86)'], env['LOCALAPPDATA']].filter(
      (root) => root !== undefined,
    );
    return roots.flatMap((root) => WINDOWS_APPS.map((app) => path.join(root, app)));
  }
  const onPath = (env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '');
  const programs = NAMES.flatMap((name) => onPath.map((folder) => path.join(folder, name)));
  if (platform !== 'darwin') return programs;
  const apps = MAC_APPS.flatMap((app) =>
    ['/Applications', path.join(env['HOME'] ?? '', 'Applications')].map((folder) =>
      path.join(folder, `${app}.app/Contents/MacOS/${app}`),
    ),
  );
  return [...apps, ...programs];
}

/**
 * Installs Debian's package if this user may install packages, otherwise Playwright's build into
 * the user's cache.
 */
async function install(log: Log): Promise<string> {
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    log('No Chrome, Chromium or Edge found: installing chromium with apt-get ...');
    const packages = ['install', '-y', '--no-install-recommends', 'chromium'];
    if ((await succeeds('apt-get', ['update'])) && (await succeeds('apt-get', packages))) {
      const found = await findInstalled();
      if (found !== null) return found;
    }
  }
  log('No Chrome, Chromium or Edge found: downloading Chromium with Playwright ...');
  const playwright = path.dirname(createRequire(import.meta.url).resolve('playwright-core/package.json'));
  const isThere = await succeeds(process.execPath, [
    path.join(playwright, 'cli.js'),
    'install',
    '--no-shell',
    'chromium',
  ]);
  const found = isThere ? await findInstalled() : null;
  if (found !== null) return found;
  throw new PeergradError(
    'No Chrome, Chromium or Edge was found, and none could be installed. Install one, or pass its path with --browser.',
  );
}

/**
 * Runs a program and writes its output to stderr. Resolves with `true` if the program exits with
 * code 0.
 */
function succeeds(program: string, args: string[]): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      stdio: ['ignore', 2, 2],
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
    child.once('error', () => resolve(false));
    child.once('close', (code) => resolve(code === 0));
  });
}
