/** Checks before joining whether this tab can take part. Each failed check suggests a remedy. */
import { findIceAddress } from '../../engine/networkCheck/candidates.ts';
import { systemClock } from '../../util/clock.ts';
import { withinDeadline } from '../../util/deadline.ts';
import { TimeoutError } from '../../util/errors.ts';
import { fallbackBackend } from '../../util/fallbackBackend.ts';
import { requestAdapter } from '../../util/gpuAdapter.ts';
import { uiMessages } from '../locales/index.ts';
import { awaitLocalNetworkPermission, localNetworkPermission } from '../browser/localNetwork.ts';

export type PreflightVerdict =
  | { kind: 'checking' }
  | { kind: 'good'; text: string }
  /** The tab may join, but it may train slowly or fail to reach other tabs. */
  | { kind: 'meh'; text: string; fix: string }
  /** The tab cannot take part. */
  | { kind: 'bad'; text: string; fix: string };

/**
 * A broken driver may make `requestAdapter` hang. After this time, the check reports that the GPU
 * does not respond.
 */
const ADAPTER_DEADLINE_MS = 5000;
/**
 * The first local ICE candidate arrives within milliseconds. If a browser has not reported a
 * candidate after three seconds, it will not report any.
 */
const CANDIDATE_DEADLINE_MS = 3000;

export function checkSecureContext(): PreflightVerdict {
  const { secure, insecure } = uiMessages.value.join.checks;
  return isSecureContext ? { kind: 'good', text: secure } : { kind: 'meh', ...insecure };
}

export async function checkGpu(): Promise<PreflightVerdict> {
  const labels = uiMessages.value.join.checks;
  /** The text about the backend that replaces WebGPU in this tab. */
  const instead = (): string => labels.fallback[fallbackBackend()];
  if (!('gpu' in navigator) || navigator.gpu === undefined) {
    const { text, newer, needsHttps } = labels.noWebGpu;
    return { kind: 'meh', text, fix: isSecureContext ? `${newer} ${instead()}` : needsHttps };
  }
  try {
    const adapter = await withinDeadline(
      systemClock,
      ADAPTER_DEADLINE_MS,
      requestAdapter(navigator.gpu),
      () => new TimeoutError('The GPU did not respond.'),
    );
    if (adapter === null) {
      return { kind: 'meh', text: labels.gpuNone, fix: instead() };
    }
    if (adapter.info.isFallbackAdapter) {
      return {
        kind: 'meh',
        text: labels.gpuSoftware.text(adapterName(adapter.info)),
        fix: labels.gpuSoftware.fix,
      };
    }
    return { kind: 'good', text: labels.gpu(adapterName(adapter.info)) };
  } catch (error) {
    return error instanceof TimeoutError
      ? { kind: 'meh', text: labels.gpuSilent.text, fix: `${instead()} ${labels.gpuSilent.fix}` }
      : { kind: 'meh', text: labels.gpuBroken, fix: instead() };
  }
}

export async function checkPeersAreReachable(): Promise<PreflightVerdict> {
  const labels = uiMessages.value.join.checks;
  if (typeof RTCPeerConnection === 'undefined') {
    return { kind: 'bad', ...labels.noWebRtc };
  }
  try {
    const isFound = (await findIceAddress('host', [], CANDIDATE_DEADLINE_MS, systemClock)) !== null;
    await awaitLocalNetworkPermission();
    if (localNetworkPermission().peek() === 'denied') {
      const { text, fix } = labels.localNetwork;
      return { kind: 'meh', text, fix };
    }
    return isFound ? { kind: 'good', text: labels.reach } : { kind: 'meh', ...labels.noWay };
  } catch {
    return { kind: 'meh', ...labels.noStart };
  }
}

function adapterName(info: { description: string; vendor: string; architecture: string }): string {
  if (info.description !== '') return info.description;
  const parts = [info.vendor, info.architecture].filter((part) => part !== '');
  return parts.length === 0 ? uiMessages.value.join.checks.unnamed : parts.join(' ');
}
