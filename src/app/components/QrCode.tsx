/**
 * Shows a link as a QR code. It is a single path, dark on light in every theme, because cameras
 * expect that.
 */
import { qrCodeOf } from '../../util/qrCode.ts';

export function QrCode({ text, label }: { text: string; label: string }) {
  const { path, size } = qrCodeOf(text);
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={label} shape-rendering="crispEdges">
      <rect width={size} height={size} class="qr-paper" />
      <path d={path} class="qr-ink" />
    </svg>
  );
}
