package settings

// MigrateMode is what an agent does about PVs without the annotation contract.AnnMigrate.
type MigrateMode string

// The modes. In each of them the agent finishes migrations that cannot be cancelled any more.
const (
	MigrateOff       MigrateMode = "off"       // nothing
	MigratePlan      MigrateMode = "plan"      // nothing; the plan shows what MigrateRun would do
	MigrateRun       MigrateMode = "run"       // hostPath PVs are replaced by CSI PVs
	MigrateBack      MigrateMode = "back"      // those CSI PVs are replaced by hostPath PVs
	MigrateAnnotated MigrateMode = "annotated" // nothing; PVs with the annotation are migrated
)
