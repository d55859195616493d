/** Finding a Chrome, Chromium or Edge on this machine, and getting one where there is none. */
import { spawn } from 'node:child_process';
import { constants, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { PeergradError, UsageError } from '../../src/util/errors.ts';

/** Told what takes long: a line for stderr. */
type Say = (line: string) => void;

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
 * The browser to use: `--browser`, PEERGRAD_BROWSER, one that is installed, or one that this
 * installs.
 *
 * @throws UsageError where the path given is not a program, PeergradError where there is no browser
 *   to be had.
 */
export async function ensureBrowser(requested: string | undefined, say: Say): Promise<string> {
  const fromEnv = process.env['PEERGRAD_BROWSER'];
  if (requested !== undefined) return checkProgram(requested, '--browser');
  if (fromEnv !== undefined && fromEnv !== '') return checkProgram(fromEnv, 'PEERGRAD_BROWSER');
  return (await findInstalled()) ?? (await install(say));
}

async function checkProgram(file: string, source: string): Promise<string> {
  if (await isProgram(file)) return file;
  throw new UsageError(`There is no browser at ${file}: give ${source} the path of Chrome, Chromium or Edge.`);
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The first browser in the usual places, or `null`. */
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

/** Debian's own package where we may install it, else Playwright's build in the user's cache. */
async function install(say: Say): Promise<string> {
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    say('No Chrome, Chromium or Edge found: installing chromium with apt-get ...');
    const packages = ['install', '-y', '--no-install-recommends', 'chromium'];
    if ((await succeeds('apt-get', ['update'])) && (await succeeds('apt-get', packages))) {
      const found = await findInstalled();
      if (found !== null) return found;
    }
  }
  say('No Chrome, Chromium or Edge found: downloading Chromium with Playwright ...');
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
    'No Chrome, Chromium or Edge was found, and none could be installed: install one, or name one with --browser.',
  );
}

/** Runs a program with its output on stderr. */
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
