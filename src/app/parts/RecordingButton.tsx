/** Downloads what this rank's flight recorder holds: to see, file beside file, which rank waited for which. */
import { downloadRecording } from '../store.ts';

export function RecordingButton() {
  return (
    <button
      type="button"
      class="quiet"
      title="The last collectives of this rank, as JSON: laid beside the other ranks’, they show who waited for whom"
      onClick={downloadRecording}
    >
      Download flight recording
    </button>
  );
}
