/** Finds and runs the Python program that has PyTorch. */
import { spawn, spawnSync } from 'node:child_process';

/**
 * Python programs to try. Debian's Python is the first, because it finds the package python3-torch.
 */
const PYTHONS = ['/usr/bin/python3', 'python3'];
/**
 * Milliseconds for a script. PyTorch takes seconds to load, in each process of a
 * group.
 */
const TIMEOUT_MS = 120_000;

/**
 * Returns the Python program that has PyTorch, and PyTorch's version; `null` if PyTorch is not
 * installed.
 */
export function findTorch(): { python: string; version: string } | null {
  for (const python of PYTHONS) {
    const { status, stdout } = spawnSync(python, ['-c', 'import torch; print(torch.__version__)'], {
      encoding: 'utf8',
    });
    if (status === 0) return { python, version: stdout.trim() };
  }
  return null;
}

/**
 * Runs a Python script and returns what it prints.
 *
 * @param input sent to its standard input.
 * @throws (rejects) Error with Python's output if Python fails.
 */
export function runPython(python: string, args: readonly string[], input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(python, args, { timeout: TIMEOUT_MS });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${python} ${args.join(' ')} ended with ${signal ?? code}:\n${stderr}`));
    });
    // If Python exits without reading its input, this write error does not matter: the exit code is
    // reported.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}
