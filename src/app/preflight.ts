/**
 * Can this tab take part? Asked before anyone joins, answered in plain words, each failure with what to do about it.
 */

export type Verdict =
  | { kind: 'checking' }
  | { kind: 'good'; text: string }
  /** Works, but slower. */
  | { kind: 'meh'; text: string; fix: string }
  /** Cannot work. */
  | { kind: 'bad'; text: string; fix: string };

/** A broken driver makes `requestAdapter` hang: better to go on without the GPU. */
const ADAPTER_DEADLINE_MS = 5000;
/** A first local candidate comes within milliseconds; three seconds is a browser that will not tell. */
const CANDIDATE_DEADLINE_MS = 3000;

export function checkSecure(): Verdict {
  if (isSecureContext) return { kind: 'good', text: 'secure page' };
  return {
    kind: 'meh',
    text: 'not a secure page',
    fix: 'This page was opened over plain http from another machine; WebGPU needs https. Ask the host for the https link, or go on without WebGPU: slower, and just as right.',
  };
}

export async function checkGpu(): Promise<Verdict> {
  const slower = 'This tab will compute with WebGL or on the CPU: slower, and just as right.';
  if (!('gpu' in navigator) || navigator.gpu === undefined) {
    const fix = isSecureContext
      ? `This browser has no WebGPU. ${slower} A newer Chrome, Edge or Safari has it.`
      : 'WebGPU needs https: see above.';
    return { kind: 'meh', text: 'no WebGPU', fix };
  }
  try {
    const adapter = await within(ADAPTER_DEADLINE_MS, navigator.gpu.requestAdapter());
    if (adapter === undefined) {
      return { kind: 'meh', text: 'the GPU does not answer', fix: `${slower} Restarting the browser often helps.` };
    }
    if (adapter === null) {
      return { kind: 'meh', text: 'no GPU that WebGPU can use', fix: slower };
    }
    if (adapter.info.isFallbackAdapter) {
      return {
        kind: 'meh',
        text: `GPU in software: ${adapterName(adapter.info)}`,
        fix: 'It computes on the CPU: slower. Hardware acceleration may be off in the browser’s settings.',
      };
    }
    return { kind: 'good', text: `GPU: ${adapterName(adapter.info)}` };
  } catch {
    return { kind: 'meh', text: 'the GPU cannot be used', fix: slower };
  }
}

export async function checkReach(): Promise<Verdict> {
  if (typeof RTCPeerConnection === 'undefined') {
    return {
      kind: 'bad',
      text: 'no WebRTC',
      fix: 'This browser cannot talk to other browsers. An extension may have switched WebRTC off; otherwise try Chrome, Edge, Firefox or Safari.',
    };
  }
  const connection = new RTCPeerConnection();
  try {
    const candidate = new Promise<true>((resolve) => {
      connection.addEventListener('icecandidate', (event) => {
        if (event.candidate !== null && event.candidate.candidate !== '') resolve(true);
      });
    });
    connection.createDataChannel('preflight');
    await connection.setLocalDescription(await connection.createOffer());
    if ((await within(CANDIDATE_DEADLINE_MS, candidate)) === true) return { kind: 'good', text: 'can reach others' };
    return {
      kind: 'meh',
      text: 'no way to other machines found',
      fix: 'Joining may fail. Check that this machine is on a network; a VPN or a privacy extension can hide it.',
    };
  } catch {
    return { kind: 'meh', text: 'WebRTC did not start', fix: 'Joining may fail. Reloading the page often helps.' };
  } finally {
    connection.close();
  }
}

export function adapterName(info: { description: string; vendor: string; architecture: string }): string {
  if (info.description !== '') return info.description;
  const parts = [info.vendor, info.architecture].filter((part) => part !== '');
  return parts.length === 0 ? 'unnamed' : parts.join(' ');
}

/** `promise`'s value, or `undefined` after `ms`. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const deadline = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
